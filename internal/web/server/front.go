package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/portal"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// front is everything before the handlers.
type front struct {
	contract *contract.Contract
	only     []string                            // operations to mount; nil: all
	precheck func(http.Header, netip.Addr) error // what of verify needs no body
	verify   func(context.Context, auth.Request) (auth.Principal, error)
	find     func(context.Context, person.Proof) (person.Member, error)
	foreign  http.CrossOriginProtection // what browsers send for pages of other sites
	repeat   repeatCheck
	book     *audit.Book // of what is denied; nil where nobody is asked who they are
	limiter  *ratelimit.Limiter
	proxies  auth.Proxies
	memory   *Memory
	console  *http.ServeMux // the pages for people; nil: there are none
	metrics  *telemetry.Metrics
	log      *slog.Logger
	timeouts timeouts
	mux      *http.ServeMux
}

// timeouts bound one request; tests shorten them.
type timeouts struct {
	body    time.Duration // to receive the body
	handler time.Duration // to answer, streams aside

	progress time.Duration // for each progressPart of a large answer
}

var defaultTimeouts = timeouts{body: 10 * time.Second, handler: 30 * time.Second, progress: 10 * time.Second}

// mount registers the operations behind the gates.
func (f *front) mount(operations api.StrictServerInterface, docs *http.ServeMux) {
	f.mux = http.NewServeMux()
	strict := api.NewStrictHandlerWithOptions(operations, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  f.refuseBinding,
		ResponseErrorHandlerFunc: f.fail,
	})
	api.HandlerWithOptions(strict, api.StdHTTPServerOptions{
		BaseRouter: operationMux{f.mux, f}, ErrorHandlerFunc: f.refuseBinding,
	})
	if f.console != nil {
		f.mux.HandleFunc("/settings", f.page)
		f.mux.HandleFunc("/settings/{page...}", f.page)
	}
	if docs != nil {
		for _, pattern := range portal.Paths {
			f.mux.HandleFunc(pattern, f.known(docs))
		}
	}
	f.mux.HandleFunc("/", f.unmatched)
}

// known passes on what docs has and answers 404 in our own form for the rest, but to whoever
// would rather read a page.
func (f *front) known(docs *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := docs.Handler(r); pattern == portal.Missing && protocol.Choose(r.Header.Values("Accept"), []string{"application/problem+json", "text/html"}) != "text/html" {
			w.Header().Set("Vary", "Accept")
			f.fail(w, r, fault.New(fault.NotFound, "There is nothing at this path."))
			return
		}
		docs.ServeHTTP(w, r.WithContext(portal.ReachedAt(r.Context(), f.proxies.Origin(r))))
	}
}

// page passes a request on to the pages for people, within the bounds that
// operations have.
func (f *front) page(w http.ResponseWriter, r *http.Request) {
	if _, pattern := f.console.Handler(r); pattern == "/" && len(f.allowed(r, f.console)) > 0 {
		f.none(w, r, f.console)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.timeouts.handler)
	defer cancel()
	r = r.WithContext(ctx)
	body, err := f.readBody(w, r)
	if err != nil {
		f.fail(w, r, err)
		return
	}
	setBody(r, body)
	f.console.ServeHTTP(w, r)
}

// operationMux wraps each operation before the generated code binds its
// parameters; the generated middlewares would run after it.
type operationMux struct {
	*http.ServeMux
	front *front
}

// HandleFunc registers the operation with that pattern.
func (m operationMux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	i := slices.IndexFunc(m.front.contract.Operations, func(o *contract.Operation) bool { return o.Pattern() == pattern })
	if i < 0 {
		return // the test that every operation is on the mux would fail
	}
	operation := m.front.contract.Operations[i]
	if m.front.only == nil || slices.Contains(m.front.only, operation.ID) {
		m.ServeMux.HandleFunc(pattern, m.front.operation(operation, handler))
	}
}

// ServeHTTP gives the request its id, lets canonical targets through to the
// operations, and answers for whatever panics there.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	call := &call{id: protocol.RequestID(r.Header), head: r.Method == http.MethodHead, hold: f.memory.hold(f.proxies.Client(r.RemoteAddr, r.Header))}
	answer := &answer{
		ResponseWriter: w, hold: call.hold, final: r.Method != http.MethodGet && r.Method != http.MethodHead,
		progress: f.timeouts.progress, deadline: began.Add(writeTimeout),
	}
	ctx := telemetry.WithRequest(telemetry.FromHeader(r.Context(), r.Header), call.id)
	ctx, span := telemetry.StartSpan(ctx, r.Method)
	r = r.WithContext(context.WithValue(ctx, callKey{}, call))
	header := w.Header()
	header.Set("X-Request-Id", call.id)
	header.Set("X-Content-Type-Options", "nosniff")
	if ambiguous(r) {
		header.Set("Connection", "close")
	}
	f.boundBody(w, r)
	defer func() {
		if cause := recover(); cause != nil {
			f.caught(answer, r, cause)
		}
		if answer.refusal != nil {
			f.fail(answer, r, answer.refusal)
		}
		call.hold.shrink(call.hold.bytes)
		if answer.status != 0 && !answer.broken {
			answer.begin()
		}
		elapsed := time.Since(began)
		status := answer.sent()
		span.SetName(strings.TrimSpace(r.Method + " " + routeOf(r.Pattern)))
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		telemetry.EndSpan(span, string(call.failed))
		f.log.InfoContext(ctx, "request", "method", r.Method, "route", routeOf(r.Pattern), "status", status,
			"duration", elapsed, "code", string(call.failed))
		if call.operation != nil && call.operation.Stream() {
			elapsed = 0
		}
		f.metrics.Request(r.Method, routeOf(r.Pattern), status, elapsed)
		if call.body != nil && answer.begun && !answer.broken {
			call.body.Discard(answer, time.Time{}) // within the time of the body
		}
		if answer.broken {
			panic(http.ErrAbortHandler)
		}
	}()
	if err := protocol.Target(r); err != nil {
		f.fail(answer, r, err)
		return
	}
	protocol.JoinConditions(r.Header)
	f.mux.ServeHTTP(answer, r)
}

// routeOf is the path of a pattern, "" where only the catch-all matched.
func routeOf(pattern string) string {
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// caught turns a panic into an answer 500, or into a cut connection when an
// answer has begun.
func (f *front) caught(w *answer, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		w.broken = true
		return
	}
	f.log.ErrorContext(r.Context(), "a handler panicked", "panic", panicText(cause), "stack", telemetry.Stack(debug.Stack()))
	f.fail(w, r, fault.New(fault.Internal, "%s", internalMessage))
}

// panicText is what the log says of a panic: the words of the runtime, and of
// anything else the type, since its text may hold what the request brought. Where
// it was is in the stack.
func panicText(cause any) string {
	if failure, ok := cause.(runtime.Error); ok {
		return failure.Error()
	}
	return fmt.Sprintf("(%T)", cause)
}

// operation is the way of a request to one operation.
func (f *front) operation(operation *contract.Operation, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call := callOf(r.Context())
		call.operation = operation
		if !operation.Stream() {
			ctx, cancel := context.WithTimeout(r.Context(), f.timeouts.handler)
			defer cancel()
			r = r.WithContext(ctx)
		}
		if err := f.admit(w, r, operation, call); err != nil {
			f.fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// admit passes the request through the gates of decisions 1.8 in their order.
func (f *front) admit(w http.ResponseWriter, r *http.Request, operation *contract.Operation, call *call) error {
	if err := f.approach(w, r, operation, call); err != nil {
		return err
	}
	body, err := f.readBody(w, r)
	if err != nil {
		return err
	}
	if err := f.identify(w, r, body, operation, call); err != nil {
		return err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.New(fault.NotFound, "There is nothing at this path.")
	}
	if call.media = protocol.Choose(r.Header.Values("Accept"), operation.Media); call.media == "" {
		return fault.New(fault.NotAcceptable, "This operation answers with %s only.", strings.Join(operation.Media, " or "))
	}
	call.gzip = protocol.TakesGzip(r.Header.Values("Accept-Encoding"))
	if !operation.Limited() {
		call.origin = f.proxies.Origin(r)
	}
	object, err := formed(r.Header, operation, body)
	if err != nil {
		return err
	}
	if operation.Signed {
		call.keep(r, body)
	}
	if err := scope(r, operation, call.principal); err != nil {
		return err
	}
	call.strict = protocol.PrefersStrict(r.Header.Values("Prefer"))
	ignored := new(contract.Ignored)
	if call.strict {
		ignored = nil
		w.Header().Set("Preference-Applied", "handling=strict")
	}
	err = operation.CheckParameters(r.PathValue, query, r.Header, ignored)
	missing := len(body) == 0 && operation.NeedsBody()
	if err != nil && (missing || fault.CodeOf(err) == fault.NotFound) {
		return mismatchFirst(r.Context(), f.repeat, call, err)
	}
	bindable, wrong := operation.CheckBody(object, ignored)
	if unknown, ok := wrong.(*fault.Error); ok && err == nil && bindable != nil && slices.Contains(tellsAll, operation.ID) {
		call.unknown, wrong = unknown.Details, nil
	}
	if err := contract.Together(err, wrong); err != nil {
		return mismatchFirst(r.Context(), f.repeat, call, err)
	}
	if missing {
		return mismatchFirst(r.Context(), f.repeat, call, fault.Invalid("", "The request has no body."))
	}
	if list := ignored.String(); list != "" {
		w.Header().Set("Weft-Ignored", list)
	}
	setBody(r, bindable)
	return nil
}

// tellsAll are the operations that refuse unknown members themselves, with all that is wrong
// with the rest.
var tellsAll = []string{"createWorkflow", "replaceWorkflow"}

// formed is the body in the form that the operation takes.
func formed(header http.Header, operation *contract.Operation, body []byte) ([]byte, error) {
	if operation.Raw {
		return body, protocol.Plain(header)
	}
	return protocol.JSONObject(header, body, operation.Signed)
}

// approach does what comes before the body is read: it checks the form of the signing
// headers, or finds the person whose session it is.
func (f *front) approach(w http.ResponseWriter, r *http.Request, operation *contract.Operation, call *call) error {
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case operation.Signed:
		return f.precheck(r.Header, call.hold.client)
	case operation.Person:
		return f.recognize(r, operation, call)
	case operation.SignIn:
		call.visit = f.visit(r)
		call.visit.device = person.DeviceCookie(r, call.visit.secure)
		return f.sameOrigin(r)
	}
	return nil
}

// identify proves who asks, as the operation wants it proven, charges the workspace
// that they belong to, and says whether they may.
func (f *front) identify(w http.ResponseWriter, r *http.Request, body []byte, operation *contract.Operation, call *call) error {
	switch {
	case operation.Signed:
		if err := f.authenticate(r, body, call); err != nil {
			return err
		}
		if operation.Method != http.MethodGet { // whose answer is not refused once something was changed
			if err := call.hold.full(); err != nil {
				return err
			}
		}
	case operation.SignIn:
		return nil
	case operation.Raw:
		call.visit, call.header = f.visit(r), r.Header // the handler finds out whose it is
	case operation.Method == http.MethodPost: // open, and an answer to what was sent
		call.visit, call.sent = f.visit(r), body
	}
	if id := call.workspaceID(); id != uuid.Nil {
		// From here on the database shows this request its own workspace only.
		*r = *r.WithContext(audit.By(postgres.Scope(r.Context(), id), call.actor()))
	}
	if operation.Limited() {
		if err := f.take(w, r, operation, call); err != nil {
			return err
		}
	}
	if needed := person.Role(operation.Role); needed != "" && !call.member.Role.Reaches(needed) {
		return person.NotAllowed(needed)
	}
	return nil
}

// unmatched answers what is no operation and no page.
func (f *front) unmatched(w http.ResponseWriter, r *http.Request) { f.none(w, r, f.mux) }

// none answers 405 where the path has other methods on mux, and 404 elsewhere.
func (f *front) none(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	if allowed := f.allowed(r, mux); len(allowed) > 0 {
		refusal := fault.New(fault.MethodNotAllowed, "This path does not have the method of the request; it has %s.", strings.Join(allowed, ", "))
		refusal.Header = map[string]string{"Allow": strings.Join(allowed, ", ")}
		f.fail(w, r, refusal)
		return
	}
	f.fail(w, r, fault.New(fault.NotFound, "There is nothing at this path."))
}

// allowed lists the methods that the path of r has on mux. HEAD goes with GET.
func (f *front) allowed(r *http.Request, mux *http.ServeMux) []string {
	var methods []string
	probe := &http.Request{URL: r.URL, Host: r.Host}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe.Method = method
		_, pattern := mux.Handler(probe)
		if pattern == "/" || pattern == "" {
			continue
		}
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return methods
}
