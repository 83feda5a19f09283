// Package server is Weft's HTTP API: the checks that every request passes, in the order of
// decisions 1.8, the operations of openapi.yaml, and the one writer of error responses.
//
// Package server decides nothing about executions, keys or callbacks: handlers translate a request
// and call a service. It contains no SQL and starts no background work. Invariant: A handler runs
// only for a request with a canonical target, the authentication that the operation requires, and
// parameters and a body that are valid under the contract. Signatures are verified over the bytes
// received.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/catalog"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/changes"
	"github.com/weft-automation/weft/internal/workflow/hook"
	"github.com/weft-automation/weft/internal/workflow/run"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

// Deps are the services that the server calls, and its settings.
type Deps struct {
	Executions  *execution.Service
	Workflows   *workflow.Service
	Runs        *run.Service
	Schedules   *schedule.Service
	Hooks       *hook.Service
	Changes     *changes.Service
	Environment *environment.Service
	Callbacks   *callback.Service
	Catalogue   *catalog.Catalog
	Guard       *egress.Guard
	Verifier    *auth.Verifier
	People      *person.Service
	Workspaces  *workspace.Service
	Keys        *auth.Keys
	Audit       *audit.Book
	Limiter     *ratelimit.Limiter
	Credits     billing.Reader
	Proxies     auth.Proxies                  // proxies whose X-Forwarded-For is trusted
	Memory      *Memory                       // bounds the bytes that requests and responses hold
	ReadyFunc   func(context.Context) []Check // runs the checks of /readyz
	Console     *http.ServeMux                // the pages under /settings; nil: not served
	Open        http.Handler                  // GET /open of weft dev; nil: not served
	Docs        *http.ServeMux                // GET /docs, the pages below it, and /llms.txt; nil: not served
	Draining    <-chan struct{}               // open streams end once it is closed; nil: never
	BindCursors bool                          // lists send bound cursors (cursor.SendBound)
	Streams     *sync.WaitGroup               // counts open streams, because http.Server.Shutdown does not wait for them
	Metrics     *telemetry.Metrics
	Log         *slog.Logger
}

// New returns the handler of the API. It returns an error if the embedded openapi.yaml is
// invalid.
func New(deps Deps) (http.Handler, error) {
	document, err := contract.Load()
	if err != nil {
		return nil, err
	}
	f := &front{
		contract: document, precheck: deps.Verifier.Precheck, verify: deps.Verifier.Verify, find: deps.People.Find, console: deps.Console, open: deps.Open, checkRepeat: deps.Executions.CheckRepeat, findWorkflow: deps.Workflows.Find,
		limiter: deps.Limiter, proxies: deps.Proxies, memory: deps.Memory,
		book:    deps.Audit,
		metrics: deps.Metrics, log: deps.Log, timeouts: defaultTimeouts,
	}
	f.mount(&Server{
		Deps: deps, systemFunc: encodeSystem(deps.Catalogue),
		streams: streams{
			verifier: deps.Verifier, people: deps.People, limiter: deps.Limiter, draining: deps.Draining, spread: drainSpread, memory: deps.Memory,
			running: deps.Streams, metrics: deps.Metrics, log: deps.Log,
		},
	}, deps.Docs)
	return f, nil
}

// Health returns a handler of /healthz and /readyz only, for a separate listener.
func Health(ready func(context.Context) []Check, metrics *telemetry.Metrics, log *slog.Logger) (http.Handler, error) {
	return healthHandler(ready, nil, metrics, log)
}

// Starting is Health for the address of the API while the process waits for the database: all other
// requests get UNAVAILABLE.
func Starting(ready func(context.Context) []Check, metrics *telemetry.Metrics, log *slog.Logger) (http.Handler, error) {
	refusal := fault.New(fault.Unavailable, "This deployment is starting. Try again.")
	refusal.RetryAfter = time.Second
	return healthHandler(ready, refusal, metrics, log)
}

func healthHandler(ready func(context.Context) []Check, refusal error, metrics *telemetry.Metrics, log *slog.Logger) (http.Handler, error) {
	document, err := contract.Load()
	if err != nil {
		return nil, err
	}
	f := &front{contract: document, memory: NewMemory(DefaultMemory), metrics: metrics, log: log, timeouts: defaultTimeouts, only: []string{"getLiveness", "getReadiness"}, refusal: refusal}
	f.mount(&Server{Deps: Deps{ReadyFunc: ready}}, nil)
	return f, nil
}

// unmatched responds to a request that matches no operation and no page.
func (f *front) unmatched(w http.ResponseWriter, r *http.Request) {
	if f.refusal != nil {
		f.fail(w, r, f.refusal)
		return
	}
	f.notFound(w, r, f.mux)
}

// Server implements the operations of the contract, one file per tag.
type Server struct {
	Deps
	systemFunc func() (encoded, error)
	streams    streams
}

var _ api.StrictServerInterface = (*Server)(nil)

// The limits of net/http (reliability AB-01 to AB-03). A whole response may take writeTimeout;
// streams set a deadline for each write instead.
const (
	readHeaderTimeout = 5 * time.Second
	writeTimeout      = 45 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 12 << 10 // net/http adds 4 KiB
)

// HTTPServer returns a server with all limits set for a handler made by New. It doesn't start
// the server.
func HTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// Otherwise net/http would answer `OPTIONS *` before the handler sees it.
		DisableGeneralOptionsHandler: true,
	}
}
