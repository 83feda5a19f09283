package server

import (
	"context"
	"sync"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/web/catalog"
)

// ListComponents returns one page of the catalogue.
func (s *Server) ListComponents(ctx context.Context, request api.ListComponentsRequestObject) (api.ListComponentsResponseObject, error) {
	page, err := s.Catalogue.Page(limit(request.Params.Limit), value(request.Params.Cursor))
	page.NextCursor = s.bind(ctx, page.NextCursor)
	return api.ListComponents200JSONResponse(page), err
}

// GetComponent returns one component of the catalogue.
func (s *Server) GetComponent(_ context.Context, request api.GetComponentRequestObject) (api.GetComponentResponseObject, error) {
	found, err := s.Catalogue.Get(request.Module)
	if err != nil {
		return nil, err
	}
	return api.GetComponent200JSONResponse(found), nil
}

// ListSystemComponents returns the whole catalogue in the dialect for code generators.
func (s *Server) ListSystemComponents(_ context.Context, request api.ListSystemComponentsRequestObject) (api.ListSystemComponentsResponseObject, error) {
	system, err := s.systemFunc()
	return textResponse("application/json", system.text).unless(system.tag, request.Params.IfNoneMatch).with("Cache-Control", "private, no-cache"), err
}

// encoded is JSON with its ETag.
type encoded struct {
	text []byte
	tag  string
}

// encodeSystem returns a function that encodes the catalogue for code generators on its first
// call.
func encodeSystem(catalogue *catalog.Catalog) func() (encoded, error) {
	return sync.OnceValues(func() (encoded, error) {
		all, err := catalogue.System()
		if err != nil {
			return encoded{}, err
		}
		text, err := strictjson.Encode(all)
		return encoded{append(text, '\n'), tagOf(text)}, err
	})
}
