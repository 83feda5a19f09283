// Package console serves the pages for people: under /console the runs of a workspace, and under
// /settings signing in, a workspace with its members, keys and credits, and accepting an invitation.
//
// Package console makes no decisions. It shows the data that the services return, and calls the
// services for submitted forms, with the roles of the contract. It keeps no state; the session is
// the API's cookie. Invariant: A page requests nothing from a different origin and runs only its
// own scripts. The content security policy enforces this.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/web/protocol"
	"github.com/weft-automation/weft/internal/web/style"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/run"
)

//go:embed pages
var pages embed.FS

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// Deps are the services that the pages call.
type Deps struct {
	People     *person.Service
	Workspaces *workspace.Service
	Keys       *auth.Keys
	Workflows  *workflow.Service
	Runs       *run.Service
	Credits    billing.Reader
	Audit      *audit.Book
	Proxies    auth.Proxies
	Log        *slog.Logger
}

// console handles all pages.
type console struct {
	Deps
	templates   *template.Template
	crossOrigin http.CrossOriginProtection // detects forms sent by pages of other sites
}

// Handler serves /console and /settings and what is below them.
func Handler(deps Deps) (*http.ServeMux, error) {
	templates, err := template.New("").Funcs(words).ParseFS(pages, "pages/*.html")
	if err != nil {
		return nil, err
	}
	c := &console{Deps: deps, templates: templates}
	mux := http.NewServeMux()
	for name, kind := range map[string]string{
		"style.css": "text/css; charset=utf-8", "console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8", "invitation.js": "text/javascript; charset=utf-8", "copy.js": "text/javascript; charset=utf-8",
	} {
		body, err := pages.ReadFile("pages/" + name)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, ".css") {
			body = append([]byte(style.Tokens), body...)
		}
		mux.HandleFunc("GET /settings/"+name, func(w http.ResponseWriter, _ *http.Request) {
			protect(w.Header())
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(body)
		})
	}
	handle := func(pattern string, page func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, page) })
	}
	handle("/", c.nothing)
	handle("GET /settings", c.start)
	for _, path := range []string{"sign-in", "sign-out"} {
		handle("GET /settings/"+path, func(w http.ResponseWriter, r *http.Request) error { return seeOther(w, r, "/settings") })
	}
	handle("POST /settings/sign-in", c.signIn)
	handle("POST /settings/sign-out", c.signOut)
	handle("GET /settings/invitations", c.invitation)
	handle("POST /settings/invitations", c.accept)
	handle("GET /settings/workspaces/{workspaceId}", c.settings)
	handle("GET /settings/workspaces/{workspaceId}/ledger.csv", c.statement)
	handle("GET /console", c.home)
	handle("GET /console/{workspaceId}", c.toRuns)
	handle("GET /console/{workspaceId}/runs", c.runs)
	handle("GET /console/{workspaceId}/runs/{runId}", c.run)
	for path, action := range runActions {
		handle("POST /console/{workspaceId}/runs/{runId}/"+path, c.actOn(action))
		handle("GET /console/{workspaceId}/runs/{runId}/"+path, toRun)
	}
	for path, action := range actions {
		handle("POST /settings/workspaces/{workspaceId}/"+path, c.act(action))
		handle("GET /settings/workspaces/{workspaceId}/"+path, back)
	}
	return mux, nil
}

// nothing handles unknown paths. It returns NOT_FOUND.
func (c *console) nothing(http.ResponseWriter, *http.Request) error {
	return fault.New(fault.NotFound, "There is no page at this address.")
}

// protect sets the security headers of every response.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would be sent without an origin
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// serve serves a page. It rejects forms of other sites, and shows errors as a page.
func (c *console) serve(w http.ResponseWriter, r *http.Request, page func(http.ResponseWriter, *http.Request) error) {
	protect(w.Header())
	err := c.crossOrigin.Check(r)
	if err != nil {
		err = &fault.Error{Code: fault.Forbidden, Message: "A page of another site sent this form. Open the settings and send the form there.", Err: err}
	} else {
		err = page(w, r)
	}
	if err == nil {
		return
	}
	status, message := c.explain(r.Context(), w.Header(), err)
	switch {
	case status == http.StatusUnauthorized:
		c.forget(w, r)
		c.render(w, status, "sign-in", signInPage{Fault: message})
	default:
		c.render(w, status, "trouble", troublePage{Title: http.StatusText(status), Fault: message})
	}
}

// explain returns the status and the message of an error, and sets Retry-After if a retry can
// help. It never returns the text of an error that isn't a *fault.Error.
func (c *console) explain(ctx context.Context, header http.Header, err error) (int, string) {
	if _, ok := errors.AsType[*postgres.DoubtError](err); ok {
		c.Log.WarnContext(ctx, "outcome of a page unknown", "error", err)
		err = fault.OutcomeUnknown(err, nil)
	}
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code != fault.Internal {
		if wait := protocol.RetryAfter(failure, false); wait > 0 {
			header.Set("Retry-After", strconv.Itoa(wait))
		}
		return protocol.Status(failure), sentence(failure.Message)
	}
	if postgres.Unavailable(err) {
		header.Set("Retry-After", "1")
		c.Log.WarnContext(ctx, "service unavailable for a page", "error", err)
		return http.StatusServiceUnavailable, "The service is temporarily unavailable. Try again in a few seconds."
	}
	c.Log.ErrorContext(ctx, "page failed", "error", err)
	return http.StatusInternalServerError, "Something went wrong on our side."
}

// render writes a page. It renders the whole page first, so that a page that fails to render isn't
// sent partially.
func (c *console) render(w http.ResponseWriter, status int, name string, data any) {
	var body bytes.Buffer
	if err := c.templates.ExecuteTemplate(&body, name, data); err != nil {
		c.Log.Error("cannot render page", "page", name, "error", err)
		http.Error(w, "The page cannot be rendered.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

// visitor is the signed-in person who requests a page.
type visitor struct {
	person.Member
	token string
}

// visitor authenticates the request by its session cookie. If workspaceID isn't nil, the
// visitor has their role in that workspace. It returns UNAUTHORIZED without a session, and
// NOT_FOUND if the person is not a member.
func (c *console) visitor(r *http.Request, workspaceID *uuid.UUID) (visitor, error) {
	v := visitor{token: person.CookieToken(r, c.Proxies.Secure(r))}
	var err error
	v.Member, err = c.People.Find(r.Context(), person.Proof{Token: v.token, Client: c.client(r), WorkspaceID: workspaceID})
	return v, err
}

func (c *console) client(r *http.Request) netip.Addr { return c.Proxies.Client(r.RemoteAddr, r.Header) }

func seeOther(w http.ResponseWriter, r *http.Request, target string) error {
	http.Redirect(w, r, target, http.StatusSeeOther)
	return nil
}
