package server

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/portal"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// The OpenAPI document in each format.
var (
	asJSON   = newDocument("application/json", api.SpecJSON())
	asYAML   = newDocument("application/yaml", api.SpecYAML())
	as30JSON = newDocument("application/json", api.Spec30JSON())
)

// GetOpenapiJSON returns the OpenAPI document as JSON.
func (s *Server) GetOpenapiJSON(ctx context.Context, request api.GetOpenapiJSONRequestObject) (api.GetOpenapiJSONResponseObject, error) {
	return asJSON.to(ctx, request.Params.IfNoneMatch), nil
}

// GetOpenapiYaml returns the OpenAPI document as YAML, with its comments.
func (s *Server) GetOpenapiYaml(ctx context.Context, request api.GetOpenapiYamlRequestObject) (api.GetOpenapiYamlResponseObject, error) {
	return asYAML.to(ctx, request.Params.IfNoneMatch), nil
}

// GetOpenapi30JSON returns the document converted to OpenAPI 3.0.
func (s *Server) GetOpenapi30JSON(ctx context.Context, request api.GetOpenapi30JSONRequestObject) (api.GetOpenapi30JSONResponseObject, error) {
	return as30JSON.to(ctx, request.Params.IfNoneMatch), nil
}

// document is the OpenAPI document in one format. Its servers field has the origin by which the
// caller reached the deployment, so that generated clients call that origin.
type document struct {
	media string
	text  []byte
	last  atomic.Pointer[edition] // most callers use the same origin
}

// edition is a document for one origin, also compressed.
type edition struct {
	media, origin string
	tag           string // of the uncompressed text; the ETag of the compressed text has the suffix -gzip
	text          []byte
	packedOnce    func() []byte
}

func newDocument(media string, text []byte) *document { return &document{media: media, text: text} }

// at returns the document for callers that use an origin.
func (d *document) at(origin string) *edition {
	if last := d.last.Load(); last != nil && last.origin == origin {
		return last
	}
	text := portal.AtOrigin(d.text, origin)
	made := &edition{d.media, origin, tagOf(text), text, sync.OnceValue(func() []byte { return protocol.Gzip(text) })}
	d.last.Store(made)
	return made
}

func (d *document) to(ctx context.Context, ifNoneMatch *api.IfNoneMatch) response {
	call := callOf(ctx)
	e := d.at(call.origin)
	answer, tag := textResponse(e.media, e.text), e.tag
	// A caller that has the uncompressed text has the same document.
	if call.gzip && !protocol.Matches(value(ifNoneMatch), e.tag) {
		answer, tag = textResponse(e.media, e.packedOnce()).with("Content-Encoding", "gzip"), strings.TrimSuffix(tag, `"`)+`-gzip"`
	}
	return answer.unless(tag, ifNoneMatch).with("Cache-Control", "private, no-cache").with("Vary", "Accept-Encoding, Host, X-Forwarded-Proto")
}
