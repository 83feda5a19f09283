package server

import (
	"context"
	"net/http"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/strictjson"
)

// ListComponents is one page of the catalogue.
func (s *Server) ListComponents(_ context.Context, request api.ListComponentsRequestObject) (api.ListComponentsResponseObject, error) {
	page, err := s.catalogue.Page(limit(request.Params.Limit), value(request.Params.Cursor))
	return api.ListComponents200JSONResponse(page), err
}

// GetComponent is one component of the catalogue.
func (s *Server) GetComponent(_ context.Context, request api.GetComponentRequestObject) (api.GetComponentResponseObject, error) {
	found, err := s.catalogue.Get(request.Module)
	if err != nil {
		return nil, err
	}
	return api.GetComponent200JSONResponse(found), nil
}

// ListSystemComponents is the whole catalogue in the dialect of code
// generators.
func (s *Server) ListSystemComponents(_ context.Context, request api.ListSystemComponentsRequestObject) (api.ListSystemComponentsResponseObject, error) {
	all, err := s.catalogue.System()
	if err != nil {
		return nil, err
	}
	text, err := strictjson.Encode(all)
	return systemAnswer{text, newTagged(tagOf(text), request.Params.IfNoneMatch)}, err
}

// systemAnswer is the catalogue as JSON.
type systemAnswer struct {
	text []byte
	tagged
}

// VisitListSystemComponentsResponse writes the catalogue, or that it is unchanged.
func (a systemAnswer) VisitListSystemComponentsResponse(w http.ResponseWriter) error {
	if a.unchanged(w) {
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(append(a.text, '\n'))
	return err
}
