package server

import (
	"context"
	"net/http"

	"github.com/weft-automation/weft/gen/api"
)

// GetOpenapiJSON is the contract as JSON.
func (s *Server) GetOpenapiJSON(context.Context, api.GetOpenapiJSONRequestObject) (api.GetOpenapiJSONResponseObject, error) {
	return document{"application/json", s.document.JSON}, nil
}

// GetOpenapiYaml is the contract as it is written.
func (s *Server) GetOpenapiYaml(context.Context, api.GetOpenapiYamlRequestObject) (api.GetOpenapiYamlResponseObject, error) {
	return document{"application/yaml", s.document.YAML}, nil
}

// GetOpenapi30JSON is the contract in the words of OpenAPI 3.0.
func (s *Server) GetOpenapi30JSON(context.Context, api.GetOpenapi30JSONRequestObject) (api.GetOpenapi30JSONResponseObject, error) {
	return document{"application/json", api.Spec30JSON()}, nil
}

// document is bytes that are answered as they are.
type document struct {
	media string
	data  []byte
}

// VisitGetOpenapiJSONResponse writes the document.
func (d document) VisitGetOpenapiJSONResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetOpenapiYamlResponse writes the document.
func (d document) VisitGetOpenapiYamlResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetOpenapi30JSONResponse writes the document.
func (d document) VisitGetOpenapi30JSONResponse(w http.ResponseWriter) error { return d.write(w) }

func (d document) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", d.media)
	w.Header().Set("Cache-Control", "no-cache")
	_, err := w.Write(d.data)
	return err
}
