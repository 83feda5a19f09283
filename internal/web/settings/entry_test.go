package settings_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
)

func TestInvitationIsAcceptedInTheSessionOfItsAddress(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}})
	other, err := workspace.Create(t.Context(), s.pool, workspace.CreateParams{Name: "Other", Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	boss := person.Account{Email: "boss@example.org", Name: "Boss", Password: password}
	if _, err := person.CreateOwner(t.Context(), s.pool, other, boss); err != nil {
		t.Fatal(err)
	}
	owner, page := s.browser(t), "/settings/workspaces/"+other.String()
	owner(http.MethodPost, "/settings/sign-in", url.Values{"email": {boss.Email}, "password": {password}})
	_, _, body := owner(http.MethodPost, page+"/invitations", url.Values{"email": {email}, "role": {"viewer"}})
	form := url.Values{"token": {textBetween(t, body, "#token=", "<")}}
	if _, _, body := owner(http.MethodPost, "/settings/invitations", form); !strings.Contains(body, `name="password"`) || strings.Contains(body, `name="join"`) {
		t.Errorf("page for a person with another address: %s", body)
	}
	if _, _, body := send(http.MethodPost, "/settings/invitations", form); strings.Contains(body, `name="password"`) || !strings.Contains(body, `name="join"`) {
		t.Errorf("page for the invited person: %s", body)
	}
	form.Set("join", "yes")
	if status, _, _ := owner(http.MethodPost, "/settings/invitations", form); status != 200 {
		t.Errorf("joining with another address: %d", status)
	}
	if status, header, _ := send(http.MethodPost, "/settings/invitations", form); status != 303 || header.Get("Location") != page {
		t.Errorf("joining: %d, to %s", status, header.Get("Location"))
	}
	if status, _, _ := send(http.MethodGet, page, nil); status != 200 {
		t.Errorf("the workspace: %d", status)
	}
}

func TestBrowserKeepsADeviceCookie(t *testing.T) {
	s := start(t)
	_, header, _ := s.browser(t)(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}}, "X-Forwarded-Proto: https")
	lines := header.Values("Set-Cookie")
	if len(lines) != 2 {
		t.Fatalf("cookies: %q", lines)
	}
	cookie, err := http.ParseSetCookie(lines[1])
	if err != nil || cookie.Name != "__Host-weft_device" || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge != 365*24*3600 {
		t.Errorf("%v, %v", cookie, err)
	}
}

// The form says why a link of weft dev signed nobody in, and shows no text of the address.
func TestSignInFormExplainsAFailedLink(t *testing.T) {
	s := start(t)
	for link, want := range map[string]string{"invalid": "This link was already used, or it has expired.", "failed": "The link could not sign you in.", "canary": ""} {
		status, _, body := s.browser(t)(http.MethodGet, "/settings?link="+link, nil)
		if status != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "canary") {
			t.Errorf("%s: %d %s", link, status, body)
		}
	}
}

// A person who opens a link to a page without a session gets to that page by signing in. No other
// site can be the target.
func TestSigningInLeadsToThePageThatWasOpened(t *testing.T) {
	s := start(t)
	send := s.browser(t)
	if status, _, body := send(http.MethodGet, s.workspace, nil); status != 401 || !strings.Contains(body, `name="next" value="`+s.workspace+`"`) || strings.Contains(body, "Bearer") {
		t.Errorf("without a session: %d", status)
	}
	for next, want := range map[string]string{
		s.workspace: s.workspace, "/console/x/runs?status=FAILED": "/console/x/runs?status=FAILED", "": "/console",
		"//evil.example": "/console", "https://evil.example/console/": "/console", "/docs": "/console",
	} {
		_, header, _ := send(http.MethodPost, "/settings/sign-in", url.Values{"email": {email}, "password": {password}, "next": {next}})
		if to := header.Get("Location"); to != want {
			t.Errorf("next %q leads to %q, want %q", next, to, want)
		}
	}
}
