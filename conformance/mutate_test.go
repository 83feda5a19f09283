package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// watchful are the cases that between them see every field; they are quick.
var watchful = []string{
	"execute/200 without waitForMs the record is CREATED", "execute/200 with waitForMs the record is COMPLETED",
	"execute/200 a failure comes inline", "execute/422 all faults against the module's schema at once",
	"execute/400 unknown fields under handling=strict",
	"get/200 a completed execution", "get/200 a failed execution",
	"SS01 a stream from EXECUTING to COMPLETED", "SS01 a stream of what is COMPLETED already", "SS01 a stream of what is FAILED",
	"CB22 a signed callback of COMPLETED", "callback/an unsigned one of FAILED", "callback/traceparent is passed on",
	"replay/200 delivers what had failed", "replay/200 the record of a delivery that failed", "replay/200 the record of a failed execution",
	"EX15 a repeat renders the present record", "list/200 executions of every kind",
	"auth/401 timestamp_expired and timestamp_in_future", "AU08 one key with another's secret",
	"catalogue/200 every component with its schemas", "catalogue/200 in the dialect of generators", "health/200",
	"spec/200 in both forms, and equal",
}

// place is where a mutation acts: one field or header of one kind of answer.
type place struct{ surface, field string }

// unseen are the places that no case can see, and why.
var unseen = map[place]string{
	{"callback", "/callback/lastError/class"}:      "the body is frozen before the first attempt",
	{"callback", "/callback/lastError/message"}:    "the body is frozen before the first attempt",
	{"callback", "/callback/lastError/httpStatus"}: "the body is frozen before the first attempt",

	{"listSystemComponents", "/*/inputs/parameters/*/schema/items"}:      "no component has such an input",
	{"listSystemComponents", "/*/inputs/parameters/*/schema/properties"}: "no component has such an input",
	{"listSystemComponents", "/*/inputs/parameters/*/schema/required"}:   "no component has such an input",
	{"listSystemComponents", "/*/outputs/response/*/schema/items"}:       "no component has such an output",
}

// mutation is one change, made to every answer that has its place.
type mutation struct {
	place
	path  []string
	types []string
	drop  bool
}

func (m mutation) String() string {
	action := "retype"
	if m.drop {
		action = "drop"
	}
	return action + " " + m.surface + " " + m.field
}

// mutations makes all of them from the document.
func mutations(spec *probe.Spec) []mutation {
	var all []mutation
	both := func(surface, field string, path, types []string) {
		m := mutation{place: place{surface, field}, path: path, types: types}
		all = append(all, m)
		m.drop = true
		all = append(all, m)
	}
	fields := func(surface string, list []probe.Field) {
		for _, f := range list {
			both(surface, "/"+strings.Join(f.Path, "/"), f.Path, f.Types)
		}
	}
	for operation, list := range spec.Answers() {
		fields(operation, list)
	}
	for operation, list := range spec.Events() {
		fields(operation+" event", list)
	}
	fields("problem", spec.Failures())
	callback, headers := spec.Callback()
	fields("callback", callback)
	for _, name := range headers {
		both("callback header", http.CanonicalHeaderKey(name), nil, nil)
	}
	for operation, names := range spec.Headers() {
		for _, name := range names {
			both(operation+" header", http.CanonicalHeaderKey(name), nil, nil)
		}
	}
	both("problem header", "X-Request-Id", nil, nil)
	// What the challenge says beyond its being there is not promised.
	all = append(all, mutation{place: place{"problem header", "Www-Authenticate"}, drop: true})
	all = slices.DeleteFunc(all, func(m mutation) bool { return unseen[m.place] != "" })
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

// proxy stands between the cases and the service. It notes the places that it
// saw and makes its mutation, if it has one.
type proxy struct {
	spec     *probe.Spec
	mutation *mutation

	mu      sync.Mutex
	places  map[place]bool
	changed int
}

// target is the deployment as seen through the proxy.
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

// stream changes the data lines as they come.
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
	p.header("callback header", d.Header)
	d.Body = p.body("callback", d.Body)
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

// note remembers which fields were there.
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

// apply changes the field wherever the path leads, and counts the changes.
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
		case !ok:
		case len(path) > 1:
			changed = m.apply(inner, path[1:])
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

// other is a value of another type, one that the field may not have where
// there is such a type.
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

// sighting is a case that saw a place, and how long it took.
type sighting struct {
	run  Case
	took time.Duration
}

// Every field and header that the document promises is dropped, and given
// another type, one at a time; the cases have to notice each time.
func TestMutationsAreCaught(t *testing.T) {
	behind := target(t)
	if deployment.pool == nil {
		t.Log("mutations are made against a deployment that was booted here")
		return
	}
	seen := sightings(t, behind)
	all := mutations(behind.Spec)
	var caught int
	var mu sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, 8)
	for at, why := range unseen {
		if len(seen[at]) > 0 {
			t.Errorf("%v is seen after all; it was left out because %s", at, why)
		}
	}
	for _, m := range all {
		group.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			err := m.try(t, behind, seen[m.place])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%v: %v", m, err)
				return
			}
			caught++
		})
	}
	group.Wait()
	t.Logf("mutations: %d made, %d caught", len(all), caught)
}

// sightings runs the watchful cases without any mutation and notes what each
// saw, the quickest first.
func sightings(t *testing.T, behind *probe.Target) map[place][]sighting {
	t.Helper()
	byName := map[string]Case{}
	for _, c := range Cases() {
		byName[c.Name] = c
	}
	seen := map[place][]sighting{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, name := range watchful {
		c, ok := byName[name]
		if !ok {
			t.Fatalf("there is no case %q", name)
		}
		p := &proxy{}
		through := p.target(t, behind)
		group.Go(func() {
			start := time.Now()
			if err := probe.Run(t.Context(), through, c.Run); err != nil {
				t.Errorf("without a mutation: %s: %v", c.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for at := range p.places {
				seen[at] = append(seen[at], sighting{c, time.Since(start)})
			}
		})
	}
	group.Wait()
	for _, list := range seen {
		slices.SortFunc(list, func(a, b sighting) int { return int(a.took - b.took) })
	}
	return seen
}

// try runs the cases that see the mutation's place until one fails. The error
// says that none did.
func (m mutation) try(t *testing.T, behind *probe.Target, candidates []sighting) error {
	if len(candidates) == 0 {
		return fmt.Errorf("no case sees it")
	}
	for _, candidate := range candidates {
		p := &proxy{mutation: &m}
		through := p.target(t, behind)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := probe.Run(ctx, through, candidate.run.Run)
		cancel()
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if err != nil && changed > 0 {
			return nil
		}
	}
	return fmt.Errorf("none of %d cases noticed", len(candidates))
}
