package app

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

func (n *tenant) cookie() withHeaders {
	return withHeaders{"Cookie": {person.Cookie(n.token, false).String()}}
}

// view requests a page as the owner.
func (n *tenant) view(t *testing.T, path string) reply {
	t.Helper()
	return n.whole.ask(t, &http.Client{Transport: n.cookie()}, "", http.MethodGet, "/console/"+n.id.String()+path, nil)
}

// A view of a page counts like requests to the API: a run's page like five, which is a second's worth of the
// smallest plan.
func TestViewsOfPagesCountAgainstTheRateLimit(t *testing.T) {
	t.Parallel()
	w := startWhole(t, withPatientLimiter)
	n := w.tenant(t, "acme")
	var run api.TriggerResult
	n.sign(t, http.MethodPost, n.saved(t), map[string]any{}).into(t, &run)
	if err := (billing.Books{}).SetPlan(t.Context(), w.app.pools.system, billing.Plan{WorkspaceID: n.id, Name: plan.Starter}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/runs/" + run.RunID.String(), "/runs", ""} {
		waittest.Until(t, "a view of "+path+" that is refused", func() bool {
			answers := make(chan reply)
			for range 10 {
				go func() { answers <- n.view(t, path) }()
			}
			refused := 0
			for range 10 {
				if r := waittest.Receive(t, "an answer", answers); r.status == http.StatusTooManyRequests && strings.Contains(r.body, "requests of its plan") {
					refused++
				}
			}
			return refused > 0
		})
	}
}

// Many views of one workspace wait for the database. Others don't notice.
func TestViewsOfOneWorkspaceLeaveTheConnectionsToOthers(t *testing.T) {
	t.Parallel()
	w := startWhole(t, withPatientLimiter)
	n, other := w.tenant(t, "acme"), w.tenant(t, "other")
	others := other.saved(t)
	conn, err := pgx.Connect(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(func() { conn.Close(context.Background()) })
	t.Cleanup(release)
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE workflow_runs"); err != nil {
		t.Fatal(err)
	}
	const views = 24
	answers, sent := make(chan reply, views), &atomic.Int32{}
	for range views {
		through := &http.Client{Transport: counted{n.cookie(), sent}}
		go func() { answers <- w.ask(t, through, "", http.MethodGet, "/console/"+n.id.String()+"/runs", nil) }()
	}
	waittest.Until(t, "views that wait", func() bool { return sent.Load() == views && w.waiting(t) >= 4 })
	if r := other.sign(t, http.MethodGet, others, nil); r.status != http.StatusOK {
		t.Errorf("a read of another workspace: got status %d %s", r.status, r.body)
	}
	if most := w.app.pools.api.Stat().AcquiredConns(); most > 6 {
		t.Errorf("%d connections are in use, want those of 4 views", most)
	}
	release()
	for range views {
		waittest.Receive(t, "an answer", answers)
	}
}
