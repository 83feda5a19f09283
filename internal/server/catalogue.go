package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
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
func (s *Server) ListSystemComponents(context.Context, api.ListSystemComponentsRequestObject) (api.ListSystemComponentsResponseObject, error) {
	all, err := s.catalogue.System()
	return api.ListSystemComponents200JSONResponse(all), err
}
