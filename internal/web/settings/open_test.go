package settings

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTicketWorksOnceAndForTenMinutes(t *testing.T) {
	t.Parallel()
	const email = "owner@example.org"
	now := time.Now()
	var ticket Ticket
	redeem := func(secret string, now time.Time) (email string) {
		_ = ticket.redeem(secret, now, func(to string) error { email = to; return nil })
		return email
	}
	if got := redeem("", now); got != "" {
		t.Errorf("a ticket that was not issued signs %q in", got)
	}
	secret := ticket.Issue(email, now)
	if got := redeem(secret[1:], now); got != "" || len(secret) != 43 {
		t.Errorf("part of the secret %q signs %q in", secret, got)
	}
	if got := redeem(secret, now.Add(TicketLife)); got != "" {
		t.Errorf("an expired ticket signs %q in", got)
	}
	broken := errors.New("the database is away")
	if err := ticket.redeem(secret, now, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a ticket that could not sign in: %v", err) // and is not used up
	}
	var redeemed atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if redeem(secret, now.Add(TicketLife-1)) == email {
				redeemed.Add(1)
			}
		})
	}
	if all.Wait(); redeemed.Load() != 1 {
		t.Errorf("the ticket was redeemed %d times", redeemed.Load())
	}
}

// The ticket is still valid after requests from elsewhere. People is nil, so the handler would panic
// if it redeemed the ticket.
func TestOpenRejectsOtherMachinesAndNames(t *testing.T) {
	t.Parallel()
	var ticket Ticket
	secret := ticket.Issue("owner@example.org", time.Now())
	handler := OpenHandler(&ticket, nil, nil, slog.New(slog.DiscardHandler))
	for _, c := range []struct{ method, peer, host string }{
		{"GET", "192.0.2.1:5000", "127.0.0.1:8080"},
		{"GET", "[2001:db8::1]:5000", "localhost"},
		{"GET", "127.0.0.1:5000", "rebound.example:8080"},
		{"GET", "127.0.0.1:5000", "localhost.example"},
		{"GET", "127.0.0.1:5000", "192.0.2.1:8080"},
		{"GET", "127.0.0.1:5000", ""},
		{"HEAD", "127.0.0.1:5000", "127.0.0.1:8080"},
	} {
		r := httptest.NewRequest(c.method, "/open?t="+secret, nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || w.Header().Get("Set-Cookie") != "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %d %v", c, w.Code, w.Header())
		}
	}
	if err := ticket.redeem(secret, time.Now(), func(string) error { return nil }); err != nil {
		t.Error("a rejected request used the ticket up")
	}
}
