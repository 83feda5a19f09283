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

// front is the part of the HTTP stack before the operations' handlers: routing, limits,
// authentication and validation.
type front struct {
	contract     *contract.Contract
	only         []string                            // operations to mount; nil: all
	refusal      error                               // for all other requests; nil: NOT_FOUND
	precheck     func(http.Header, netip.Addr) error // the checks of verify that need no body
	verify       func(context.Context, auth.Request) (auth.Principal, error)
	find         func(context.Context, person.Proof) (person.Member, error)
	crossOrigin  http.CrossOriginProtection // detects requests that browsers send for pages of other sites
	checkRepeat  repeatCheck
	findWorkflow finder      // finds the workflows that requests name
	book         *audit.Book // records denied requests; nil if no operation needs authentication
	limiter      *ratelimit.Limiter
	proxies      auth.Proxies
	memory       *Memory
	console      *http.ServeMux // the pages under /settings; nil: not served
	open         http.Handler   // GET /open; nil: not served
	metrics      *telemetry.Metrics
	log          *slog.Logger
	timeouts     timeouts
	mux          *http.ServeMux
}

// timeouts bound one request; tests shorten them.
type timeouts struct {
	body    time.Duration // to receive the body
	handler time.Duration // to respond, except streams
}

var defaultTimeouts = timeouts{body: 10 * time.Second, handler: 30 * time.Second}

// mount registers the operations, each behind the checks of admit, and the pages.
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
		for _, path := range []string{"/settings", "/console"} {
			f.mux.HandleFunc(path, f.page)
			f.mux.HandleFunc(path+"/{page...}", f.page)
		}
	}
	if f.open != nil {
		f.mux.Handle("GET /open", f.open)
	}
	if docs != nil {
		for _, pattern := range portal.Paths {
			f.mux.HandleFunc(pattern, f.docsHandler(docs))
		}
	}
	f.mux.HandleFunc("/", f.unmatched)
}

// docsHandler serves the pages of docs. For a missing page it responds with a problem document,
// or with the HTML page of docs if the client prefers HTML.
func (f *front) docsHandler(docs *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := docs.Handler(r); pattern == portal.Missing && protocol.Choose(r.Header.Values("Accept"), []string{"application/problem+json", "text/html"}) != "text/html" {
			w.Header().Set("Vary", "Accept")
			f.fail(w, r, fault.New(fault.NotFound, "There is nothing at this path."))
			return
		}
		docs.ServeHTTP(w, r.WithContext(portal.WithOrigin(r.Context(), f.proxies.Origin(r))))
	}
}

// page serves a request with the console, within the time and body limits of operations.
func (f *front) page(w http.ResponseWriter, r *http.Request) {
	if _, pattern := f.console.Handler(r); pattern == "/" && len(f.allowed(r, f.console)) > 0 {
		f.notFound(w, r, f.console)
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

// operationMux wraps each operation so that the checks run before the generated code binds
// parameters. The generated middlewares would run after that.
type operationMux struct {
	*http.ServeMux
	front *front
}

// HandleFunc registers handler for the operation that has the pattern, if it is to be mounted.
func (m operationMux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	i := slices.IndexFunc(m.front.contract.Operations, func(o *contract.Operation) bool { return o.Pattern() == pattern })
	if i < 0 {
		return // a test checks that every operation is on the mux
	}
	operation := m.front.contract.Operations[i]
	if m.front.only == nil || slices.Contains(m.front.only, operation.ID) {
		m.ServeMux.HandleFunc(pattern, m.front.operation(operation, handler))
	}
}

// ServeHTTP assigns the request ID, rejects targets that aren't canonical, and routes the
// request. It logs and measures each request, and responds with 500 if a handler panics.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	call := &call{id: protocol.RequestID(r.Header), head: r.Method == http.MethodHead, hold: f.memory.hold(f.proxies.Client(r.RemoteAddr, r.Header))}
	answer := &answer{ResponseWriter: w, hold: call.hold, final: r.Method != http.MethodGet && r.Method != http.MethodHead}
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
			f.recovered(answer, r, cause)
		}
		if answer.refusal != nil {
			f.fail(answer, r, answer.refusal)
		}
		call.hold.shrink(call.hold.bytes)
		if answer.status != 0 && !answer.broken {
			answer.start()
		}
		elapsed := time.Since(began)
		status := answer.sent()
		route := routeOf(r.Pattern)
		if span.IsRecording() {
			span.SetName(strings.TrimSpace(r.Method + " " + route))
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		telemetry.EndSpan(span, string(call.failed))
		f.log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", r.Method), slog.String("route", route), slog.Int("status", status),
			slog.Duration("duration", elapsed), slog.String("code", string(call.failed)))
		if call.operation != nil && call.operation.Stream() {
			elapsed = 0
		}
		f.metrics.Request(r.Method, route, status, elapsed)
		if call.body != nil && answer.started && !answer.broken {
			call.body.Discard(answer, time.Time{}) // the read deadline of the body still applies
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
	protocol.DropEmptyEventID(r.Header)
	f.mux.ServeHTTP(answer, r)
}

// routeOf returns the path of a pattern, or "" if only the catch-all matched.
func routeOf(pattern string) string {
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// recovered responds with 500 after a panic with the value cause. It aborts the connection if
// the response has already started.
func (f *front) recovered(w *answer, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		w.broken = true
		return
	}
	f.log.ErrorContext(r.Context(), "handler panicked", "panic", panicText(cause), "stack", telemetry.Stack(debug.Stack()))
	f.fail(w, r, fault.New(fault.Internal, "%s", internalMessage))
}

// panicText returns the text of a panic for the log: the message of a runtime error, and only the
// type of any other value, because the text of such a value may contain data of the request.
func panicText(cause any) string {
	if failure, ok := cause.(runtime.Error); ok {
		return failure.Error()
	}
	return fmt.Sprintf("(%T)", cause)
}

// operation returns the handler of one operation: the checks of admit, then next.
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

// admit runs the checks of decisions 1.8 in their order. It returns the error of the first check
// that fails. If all checks pass, admit replaces the body of r with the validated body.
func (f *front) admit(w http.ResponseWriter, r *http.Request, operation *contract.Operation, call *call) error {
	if err := f.preauthenticate(w, r, operation, call); err != nil {
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
	call.query = query
	if call.media = protocol.Choose(r.Header.Values("Accept"), operation.Media); call.media == "" {
		return fault.New(fault.NotAcceptable, "This operation responds only with %s. Change the Accept header.", strings.Join(operation.Media, " or "))
	}
	call.gzip = protocol.AcceptsGzip(r.Header.Values("Accept-Encoding"))
	if !operation.Limited() {
		call.origin = f.proxies.Origin(r)
	}
	object, err := checkMedia(r.Header, call, body)
	if err != nil {
		return err
	}
	if operation.Signed {
		call.setIdempotency(r, body)
	}
	if err := f.checkScope(r, operation, call); err != nil {
		return err
	}
	call.strict = protocol.PrefersStrict(r.Header.Values("Prefer"))
	ignored := new(contract.Ignored)
	if call.strict {
		ignored = nil
		w.Header().Set("Preference-Applied", "handling=strict")
	}
	err = checkParameters(r, operation, query, ignored)
	missing := len(body) == 0 && operation.NeedsBody()
	if err != nil && (missing || fault.CodeOf(err) == fault.NotFound) {
		return mismatchFirst(r.Context(), f.checkRepeat, call, err)
	}
	bindable, wrong := operation.CheckBody(object, ignored)
	if form, ok := wrong.(*fault.Error); ok && err == nil && bindable != nil && slices.Contains(reportsForm, operation.ID) {
		call.faults, wrong = form.Details, nil
	}
	if err := contract.Together(err, wrong); err != nil {
		return mismatchFirst(r.Context(), f.checkRepeat, call, err)
	}
	if missing {
		return mismatchFirst(r.Context(), f.checkRepeat, call, fault.Invalid("", "The request body is missing."))
	}
	if list := ignored.String(); list != "" {
		w.Header().Set("Weft-Ignored", list)
	}
	return f.resolve(r, bindable, call)
}

// reportsForm are the operations that report faults in the form of their body themselves, together
// with all other faults of the workflow or call.
var reportsForm = []string{"createWorkflow", "replaceWorkflow", "validateWorkflow", "executeComponent"}

// checkMedia checks the media type and the JSON of a body, and returns the body to validate.
func checkMedia(header http.Header, call *call, body []byte) ([]byte, error) {
	if call.operation.Raw {
		return body, protocol.Packed(header)
	}
	return protocol.JSONObject(header, body, call.operation.Signed && !call.session)
}

// preauthenticate does the checks that don't need the body. It checks the form of the signing
// headers, or authenticates a person by their session.
func (f *front) preauthenticate(w http.ResponseWriter, r *http.Request, operation *contract.Operation, call *call) error {
	w.Header().Set("Cache-Control", "no-store")
	call.session = bySession(r, operation)
	switch {
	case call.session:
		return f.recognize(r, operation, call)
	case operation.Signed:
		return f.precheck(r.Header, call.hold.client)
	case operation.SignIn:
		call.visit = f.visit(r)
		call.visit.device = person.DeviceCookie(r, call.visit.secure)
		return f.sameOrigin(r, operation)
	}
	return nil
}

// identify authenticates the caller as the operation requires, charges the rate limit of their
// workspace, and returns FORBIDDEN if their role doesn't allow the operation.
func (f *front) identify(w http.ResponseWriter, r *http.Request, body []byte, operation *contract.Operation, call *call) error {
	switch {
	case operation.Signed:
		if !call.session {
			if err := f.authenticate(r, body, call); err != nil {
				return err
			}
		}
		if operation.Method != http.MethodGet { // responses to changes are never rejected, so check the memory before the change
			if err := call.hold.full(); err != nil {
				return err
			}
		}
	case operation.SignIn:
		return nil
	case operation.Raw:
		call.visit, call.header = f.visit(r), r.Header // the handler finds the workspace by the hook
	case operation.Method == http.MethodPost: // a public operation that needs the body as received
		call.visit, call.sent = f.visit(r), body
	}
	if id := call.workspaceID(); id != uuid.Nil {
		// From here on, row-level security limits this request to its own workspace.
		*r = *r.WithContext(call.reading(audit.By(postgres.Scope(r.Context(), id), call.actor())))
	}
	if operation.Limited() {
		if err := f.charge(w, r, operation, call); err != nil {
			return err
		}
	}
	if needed := person.Role(operation.Role); call.session && needed != "" && !call.member.Role.Reaches(needed) {
		return person.NotAllowed(needed)
	}
	return nil
}

// notFound responds with 405 if mux has the path with other methods, and with 404 otherwise.
func (f *front) notFound(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	if allowed := f.allowed(r, mux); len(allowed) > 0 {
		refusal := fault.New(fault.MethodNotAllowed, "Method not allowed. This path supports %s.", strings.Join(allowed, ", "))
		refusal.Header = map[string]string{"Allow": strings.Join(allowed, ", ")}
		f.fail(w, r, refusal)
		return
	}
	f.fail(w, r, fault.New(fault.NotFound, "There is nothing at this path."))
}

// allowed returns the methods that mux supports for the path of r. GET implies HEAD.
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
