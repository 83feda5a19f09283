package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/web/settings"
)

// The link of weft dev signs in once, and leaves no trace in the log. A process without a ticket has
// no such path.
func TestOpenSignsInOnce(t *testing.T) {
	t.Parallel()
	ticket := &settings.Ticket{}
	w := startWhole(t, func(cfg *Config) { cfg.ticket = ticket })
	const email = "owner@example.org"
	if _, err := person.CreateOwner(t.Context(), w.app.pools.system, w.id, person.Account{Email: email, Name: "Owner", Password: "a long enough password"}); err != nil {
		t.Fatal(err)
	}
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(url, cookie string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", cookie)
		answer, err := direct.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer
	}
	secret := ticket.Issue(email, time.Now())
	link := w.app.URL() + "/open?t=" + secret
	first, second := get(link, ""), get(link, "")
	for want, answer := range map[string]*http.Response{"/console": first, "/settings?link=invalid": second} {
		h := answer.Header
		if answer.StatusCode != http.StatusSeeOther || h.Get("Location") != want || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v", answer.StatusCode, h)
		}
	}
	cookies := first.Cookies()
	if len(cookies) == 0 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || len(second.Cookies()) != 0 {
		t.Fatalf("the first answer sets %v, the second %v", cookies, second.Cookies())
	}
	if inside := get(w.app.URL()+"/settings", cookies[0].Name+"="+cookies[0].Value); inside.Header.Get("Location") != "/settings/workspaces/"+w.id.String() {
		t.Errorf("the session leads to %d %v", inside.StatusCode, inside.Header)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Error("the secret is in the log")
	}
	if answer := get(startWhole(t, nil).app.URL()+"/open?t="+secret, ""); answer.StatusCode != http.StatusNotFound || answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("without a ticket: %d %v", answer.StatusCode, answer.Header)
	}
}
