// Package page holds what all pages for people have in common: the frame around them, their style
// sheets and scripts, sessions, errors as pages, and the formats of values.
//
// It makes no decisions and keeps no state; the session is the API's cookie. Invariant: A page
// requests nothing from a different origin and runs only its own scripts. The content security policy
// enforces this.
package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/web/protocol"
	"github.com/weft-automation/weft/internal/web/style"
)

//go:embed pages
var pages embed.FS

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// Deps are the services that all pages need.
type Deps struct {
	People  *person.Service
	Audit   *audit.Book
	Proxies auth.Proxies
	Log     *slog.Logger
}

// Site serves the pages of a package.
type Site struct {
	Deps
	mux         *http.ServeMux
	templates   *template.Template
	crossOrigin http.CrossOriginProtection // detects forms sent by pages of other sites
}

// NewMux returns a mux for pages. It serves the style sheets and scripts that all pages share, and an
// error page for unknown paths.
func NewMux(deps Deps) (*http.ServeMux, error) {
	mux := http.NewServeMux()
	site, err := New(deps, mux, nil, nil)
	if err != nil {
		return nil, err
	}
	site.Handle("/", site.nothing)
	return mux, site.Files(pages, "style.css", "console.css", "console.js", "copy.js")
}

// New returns a Site whose pages have the templates in the folder pages of own, which may use the
// functions, and are served on the mux.
func New(deps Deps, mux *http.ServeMux, own fs.FS, functions template.FuncMap) (*Site, error) {
	all := maps.Clone(words)
	maps.Copy(all, functions)
	templates, err := template.New("").Funcs(all).ParseFS(pages, "pages/*.html")
	if err == nil && own != nil {
		templates, err = templates.ParseFS(own, "pages/*.html")
	}
	return &Site{Deps: deps, mux: mux, templates: templates}, err
}

// Files serves files of the folder pages in files under /settings.
func (s *Site) Files(files fs.FS, names ...string) error {
	for _, name := range names {
		body, err := fs.ReadFile(files, "pages/"+name)
		if err != nil {
			return err
		}
		kind := "text/javascript; charset=utf-8"
		if strings.HasSuffix(name, ".css") {
			kind, body = "text/css; charset=utf-8", append([]byte(style.Tokens), body...)
		}
		s.mux.HandleFunc("GET /settings/"+name, func(w http.ResponseWriter, _ *http.Request) {
			Protect(w.Header())
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(body)
		})
	}
	return nil
}

// Handle registers the handler of a page. Forms of other sites are rejected, and errors are shown as
// a page.
func (s *Site) Handle(pattern string, handler func(http.ResponseWriter, *http.Request) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, handler) })
}

// SignIn is the data of the template sign-in. Next is the path to show afterwards; it may be empty.
type SignIn struct{ Email, Fault, Next string }

// trouble is the data of the template trouble.
type trouble struct{ Title, Fault string }

// nothing handles unknown paths. It returns NOT_FOUND.
func (s *Site) nothing(http.ResponseWriter, *http.Request) error {
	return fault.New(fault.NotFound, "There is no page at this address.")
}

// Protect sets the security headers of every response.
func Protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would be sent without an origin
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// serve serves a page. It rejects forms of other sites, and shows errors as a page.
func (s *Site) serve(w http.ResponseWriter, r *http.Request, page func(http.ResponseWriter, *http.Request) error) {
	Protect(w.Header())
	err := s.crossOrigin.Check(r)
	if err != nil {
		err = &fault.Error{Code: fault.Forbidden, Message: "A page of another site sent this form. Open the page here and send its form.", Err: err}
	} else if err = checkText(r); err == nil {
		err = page(w, r)
	}
	if err == nil {
		return
	}
	status, message := s.Explain(r.Context(), w.Header(), err)
	switch {
	case status == http.StatusUnauthorized:
		s.Forget(w, r)
		p := SignIn{Fault: "You are not signed in, or your session has ended."}
		if r.Method == http.MethodGet {
			p.Next = r.URL.RequestURI()
		}
		s.Render(w, status, "sign-in", p)
	default:
		s.Render(w, status, "trouble", trouble{Title: http.StatusText(status), Fault: message})
	}
}

// Explain returns the status and the message of an error, and sets Retry-After if a retry can
// help. It never returns the text of an error that isn't a *fault.Error.
func (s *Site) Explain(ctx context.Context, header http.Header, err error) (int, string) {
	if _, ok := errors.AsType[*postgres.DoubtError](err); ok {
		s.Log.WarnContext(ctx, "outcome of a page unknown", "error", err)
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
		s.Log.WarnContext(ctx, "service unavailable for a page", "error", err)
		return http.StatusServiceUnavailable, "The service is temporarily unavailable. Try again in a few seconds."
	}
	if errors.Is(err, context.Canceled) { // the reader has left
		s.Log.DebugContext(ctx, "page canceled", "error", err)
		return http.StatusServiceUnavailable, "The request was canceled."
	}
	s.Log.ErrorContext(ctx, "page failed", "error", err)
	return http.StatusInternalServerError, "Something went wrong on our side."
}

// Render writes a page. It renders the whole page first, so that a page that fails to render isn't
// sent partially.
func (s *Site) Render(w http.ResponseWriter, status int, name string, data any) {
	var body bytes.Buffer
	if err := s.templates.ExecuteTemplate(&body, name, data); err != nil {
		s.Log.Error("cannot render page", "page", name, "error", err)
		http.Error(w, "The page cannot be rendered.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

// Visitor is the signed-in person who requests a page.
type Visitor struct {
	person.Member
	Token string
}

// Visitor authenticates the request by its session cookie. If workspaceID isn't nil, the
// visitor has their role in that workspace. It returns UNAUTHORIZED without a session, and
// NOT_FOUND if the person is not a member.
func (s *Site) Visitor(r *http.Request, workspaceID *uuid.UUID) (Visitor, error) {
	v := Visitor{Token: person.CookieToken(r, s.Proxies.Secure(r))}
	var err error
	v.Member, err = s.People.Find(r.Context(), person.Proof{Token: v.Token, Client: s.Client(r), WorkspaceID: workspaceID})
	return v, err
}

// Client returns the address of the client.
func (s *Site) Client(r *http.Request) netip.Addr { return s.Proxies.Client(r.RemoteAddr, r.Header) }

// SeeOther redirects to another page.
func SeeOther(w http.ResponseWriter, r *http.Request, target string) error {
	http.Redirect(w, r, target, http.StatusSeeOther)
	return nil
}

// formLife is how far the time in a form's ID may be from now. Lists are sorted by ID, so a
// resource with a forged time could hide at the end of a list.
const formLife = 24 * time.Hour

// FormID returns the ID in the form of the resource to create. It returns the zero UUID if the
// ID is missing, malformed or too old.
func FormID(r *http.Request) uuid.UUID {
	id, err := uuid.Parse(r.PostFormValue("id"))
	if err != nil || id.Version() != 7 || time.Since(time.Unix(id.Time().UnixTime())).Abs() > formLife {
		return uuid.Nil
	}
	return id
}
