package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// proxy is between the cases and the service. It records the places that occur in responses and
// applies its mutation, if one is set.
type proxy struct {
	spec     *probe.Spec
	mutation *mutation

	mu      sync.Mutex
	places  map[place]bool
	changed int
}

// target returns the deployment behind the proxy as a target.
func (p *proxy) target(t *testing.T, behind *probe.Target) *probe.Target {
	t.Helper()
	base, err := url.Parse(behind.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p.spec, p.places = behind.Spec, map[place]bool{}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Header.Set("Accept-Encoding", "identity") // the proxy changes fields only of uncompressed responses
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		},
		ModifyResponse: p.answer,
	})
	t.Cleanup(server.Close)
	through := *behind
	through.BaseURL = server.URL
	through.Tamper = p.delivery
	return &through
}

func (p *proxy) answer(response *http.Response) error {
	operation := p.spec.Find(response.Request.Method, response.Request.URL.RequestURI())
	surface := "problem"
	if response.StatusCode < http.StatusBadRequest && operation != nil {
		surface = operation.ID
	}
	p.header(surface+" header", response.Header)
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	switch {
	case kind == "text/event-stream":
		response.Body = p.stream(surface+" event", response.Body)
	case strings.HasSuffix(kind, "json"):
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		response.Body.Close()
		body = p.body(surface, body)
		response.Body = io.NopCloser(bytes.NewReader(body))
		response.ContentLength = int64(len(body))
		response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// stream changes the data lines of a stream.
func (p *proxy) stream(surface string, body io.ReadCloser) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				line = append([]byte("data: "), append(p.body(surface, bytes.TrimSpace(data)), '\n')...)
			}
			if _, failed := writer.Write(line); failed != nil || err != nil {
				writer.CloseWithError(err)
				return
			}
		}
	}()
	return struct {
		io.Reader
		io.Closer
	}{reader, reader}
}

func (p *proxy) delivery(d *probe.Delivery) {
	surface := "callback"
	if d.OfRun() {
		surface = "run callback"
	}
	p.header(surface+" header", d.Header)
	d.Body = p.body(surface, d.Body)
}

func (p *proxy) header(surface string, header http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range header {
		p.places[place{surface, name}] = true
	}
	if p.mutation == nil || p.mutation.surface != surface || header[p.mutation.field] == nil {
		return
	}
	p.changed++
	if p.mutation.drop {
		header.Del(p.mutation.field)
	} else {
		header.Set(p.mutation.field, "re;typed")
	}
}

func (p *proxy) body(surface string, body []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return body
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(surface, "", value)
	if p.mutation == nil || p.mutation.surface != surface || p.mutation.path == nil {
		return body
	}
	changed := p.mutation.apply(value, p.mutation.path)
	if changed == 0 {
		return body
	}
	p.changed += changed
	mutated, err := json.Marshal(value)
	if err != nil {
		return body
	}
	return mutated
}

// note records the fields that are present.
func (p *proxy) note(surface, at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			p.places[place{surface, at + "/" + name}] = true
			p.note(surface, at+"/"+name, inner)
		}
	case []any:
		for _, inner := range value {
			p.note(surface, at+"/*", inner)
		}
	}
}

// apply changes the field everywhere the path matches, and counts the changes.
func (m *mutation) apply(value any, path []string) (changed int) {
	switch value := value.(type) {
	case []any:
		if path[0] == "*" {
			for _, item := range value {
				changed += m.apply(item, path[1:])
			}
		}
	case map[string]any:
		inner, ok := value[path[0]]
		switch {
		case len(path) > 1:
			changed = m.apply(inner, path[1:])
		case m.put != nil:
			value[path[0]] = m.put
			changed = 1
		case !ok:
		case m.drop:
			delete(value, path[0])
			changed = 1
		default:
			value[path[0]] = m.other(inner)
			changed = 1
		}
	}
	return changed
}

// other returns a value of another type, if possible one that the field may not have.
func (m *mutation) other(value any) any {
	have := typeName(value)
	for _, candidate := range []any{json.Number("7.5"), "retyped", true, map[string]any{}, []any{}} {
		if name := typeName(candidate); name != have && !slices.Contains(m.types, name) {
			return candidate
		}
	}
	return nil
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case json.Number:
		return "number"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	}
	return "object"
}
