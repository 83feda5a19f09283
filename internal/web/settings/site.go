// Package settings serves the pages under /settings: signing in, a workspace with its members, keys
// and credits, and accepting an invitation.
//
// It makes no decisions. It shows the data that the services return, and calls the services for
// submitted forms, with the roles of the contract.
package settings

import (
	"embed"
	"html/template"
	"net/http"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow"
)

//go:embed pages
var pages embed.FS

// Deps are the services that the pages call.
type Deps struct {
	Page       page.Deps
	Workspaces *workspace.Service
	Keys       *auth.Keys
	Workflows  *workflow.Service
	Credits    billing.Reader
}

// site handles all pages.
type site struct {
	*page.Site
	Deps
}

// Mount adds /settings and what is below it to a mux of package page.
func Mount(mux *http.ServeMux, deps Deps) error {
	all, err := page.New(deps.Page, mux, pages, template.FuncMap{"action": actionText, "about": subject})
	if err != nil {
		return err
	}
	s := &site{Site: all, Deps: deps}
	if err := s.Files(pages, "invitation.js"); err != nil {
		return err
	}
	s.Handle("GET /settings", s.start)
	for _, path := range []string{"sign-in", "sign-out"} {
		s.Handle("GET /settings/"+path, func(w http.ResponseWriter, r *http.Request) error { return page.SeeOther(w, r, "/settings") })
	}
	s.Handle("POST /settings/sign-in", s.signIn)
	s.Handle("POST /settings/sign-out", s.signOut)
	s.Handle("GET /settings/invitations", s.invitation)
	s.Handle("POST /settings/invitations", s.accept)
	s.Handle("GET /settings/workspaces/{workspaceId}", s.settings)
	s.Handle("GET /settings/workspaces/{workspaceId}/ledger.csv", s.statement)
	for path, action := range actions {
		s.Handle("POST /settings/workspaces/{workspaceId}/"+path, s.act(action))
		s.Handle("GET /settings/workspaces/{workspaceId}/"+path, back)
	}
	return nil
}
