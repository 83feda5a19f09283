package server

import (
	"context"
	"net/http"
	"sync"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/gate"
)

// The contract in its forms.
var (
	asJSON   = newDocument("application/json", api.SpecJSON())
	asYAML   = newDocument("application/yaml", api.SpecYAML())
	as30JSON = newDocument("application/json", api.Spec30JSON())
)

// GetOpenapiJSON is the contract as JSON.
func (s *Server) GetOpenapiJSON(ctx context.Context, _ api.GetOpenapiJSONRequestObject) (api.GetOpenapiJSONResponseObject, error) {
	return asJSON.to(ctx), nil
}

// GetOpenapiYaml is the contract as it is written.
func (s *Server) GetOpenapiYaml(ctx context.Context, _ api.GetOpenapiYamlRequestObject) (api.GetOpenapiYamlResponseObject, error) {
	return asYAML.to(ctx), nil
}

// GetOpenapi30JSON is the contract in the words of OpenAPI 3.0.
func (s *Server) GetOpenapi30JSON(ctx context.Context, _ api.GetOpenapi30JSONRequestObject) (api.GetOpenapi30JSONResponseObject, error) {
	return as30JSON.to(ctx), nil
}

// document is a text that is answered as it is, or compressed to who takes that: once, when
// it is first asked for.
type document struct {
	media      string
	text       []byte
	packedOnce func() []byte
}

func newDocument(media string, text []byte) document {
	return document{media, text, sync.OnceValue(func() []byte { return gate.Gzip(text) })}
}

// sent is a document for one caller.
type sent struct {
	document
	packed bool
}

func (d document) to(ctx context.Context) sent { return sent{d, callOf(ctx).gzip} }

// VisitGetOpenapiJSONResponse writes the document.
func (s sent) VisitGetOpenapiJSONResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitGetOpenapiYamlResponse writes the document.
func (s sent) VisitGetOpenapiYamlResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitGetOpenapi30JSONResponse writes the document.
func (s sent) VisitGetOpenapi30JSONResponse(w http.ResponseWriter) error { return s.write(w) }

func (s sent) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", s.media)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept-Encoding")
	text := s.text
	if s.packed {
		w.Header().Set("Content-Encoding", "gzip")
		text = s.packedOnce()
	}
	_, err := w.Write(text)
	return err
}
