package accesstoken_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/accesstoken"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// bench is a workspace with the variable T, and a token address.
type bench struct {
	pool      *pgxpool.Pool
	workspace uuid.UUID
	ring      *seal.Keyring
	guard     *egress.Guard
	address   string
	ctx       context.Context // of requests
}

func newBench(t *testing.T, handler http.HandlerFunc) *bench {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b := &bench{address: server.URL + "/token", guard: egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}
	t.Cleanup(b.guard.Close)
	var err error
	if b.pool, err = postgres.Open(t.Context(), pgtest.DSN(t), "test", postgres.Owner, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	if b.workspace, err = workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "Acme", Plan: plan.Starter}); err != nil {
		t.Fatal(err)
	}
	if b.ring, err = seal.NewKeyring(seal.Key{ID: "test", Secret: [32]byte{7}}); err != nil {
		t.Fatal(err)
	}
	b.ctx = postgres.Scope(t.Context(), b.workspace)
	return b
}

// set sets the variable T.
func (b *bench) set(t *testing.T, client environment.Client) {
	t.Helper()
	if client.TokenURL == "" {
		client.TokenURL = b.address
	}
	p := environment.SetParams{WorkspaceID: b.workspace, Name: "T", Kind: environment.KindToken, Client: &client}
	if _, err := environment.NewService(b.pool, b.ring).Set(b.ctx, p); err != nil {
		t.Fatal(err)
	}
}

// source returns the tokens as one process has them.
func (b *bench) source() *accesstoken.Source { return accesstoken.New(b.pool, b.ring, b.guard) }

func (b *bench) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestARequestForATokenIsThatOfTheRFC(t *testing.T) {
	t.Parallel()
	for auth, want := range map[string]string{
		"header": "we:ft%2B%C3%A9 p%26w%3A%25|grant_type=client_credentials&scope=a+b",
		"body":   "|audience=https%3A%2F%2Fapi.example&client_id=we%3Aft%2B%C3%A9&client_secret=p%26w%3A%25&grant_type=client_credentials",
	} {
		var got string
		b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
			user, password, ok := r.BasicAuth()
			_ = r.ParseForm()
			got = "|" + r.PostForm.Encode()
			if ok {
				got = user + " " + password + got
			}
			fmt.Fprint(w, `{"access_token":"one"}`)
		})
		client := environment.Client{ID: "we:ft+é", Secret: "p&w:%", Auth: auth}
		if auth == "header" {
			client.Scope, want = "a b", strings.Replace(want, "we:", "we%3A", 1)
		} else {
			client.Audience = "https://api.example"
		}
		b.set(t, client)
		if token, err := b.source().Get(t.Context(), b.workspace, "T"); err != nil || token.Value != "one" || got != want {
			t.Errorf("%s: %q, want %q; %v", auth, got, want, err)
		}
	}
}

func TestAnswersOfATokenAddressAreReadStrictly(t *testing.T) {
	t.Parallel()
	status, answer := 200, ""
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if status == 302 {
			w.Header().Set("Location", "/other")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	})
	for _, c := range []struct {
		status    int
		answer    string
		life      int // in seconds; 0: refused
		retryable bool
		word      string
	}{
		{200, `{"access_token":"x","token_type":"Bearer","expires_in":600}`, 600, false, ""},
		{200, `{"access_token":"x","token_type":"bearer","expires_in":"600"}`, 600, false, ""},
		{200, `{"access_token":"x","token_type":"Bearer"}`, 3600, false, ""},
		{200, `{"access_token":"x","expires_in":null}`, 3600, false, ""},
		{200, `{"access_token":"x","expires_in":0}`, 0, true, ""},
		{200, `{"access_token":"x","expires_in":-1}`, 0, true, ""},
		{200, `{"access_token":"x","expires_in":"soon"}`, 0, true, ""},
		{200, `{"access_token":"x","expires_in":"Infinity"}`, 0, true, ""},
		{200, `{"access_token":"x","expires_in":[600]}`, 0, true, ""},
		{200, `{"access_token":"x","token_type":"mac","expires_in":600}`, 0, true, ""},
		{200, `{"access_token":""}`, 0, true, ""},
		{200, `{"token_type":"Bearer"}`, 0, true, ""},
		{200, `{"access_token":"a\r\nb"}`, 0, true, ""},
		{200, `<html>`, 0, true, ""},
		{200, `{"access_token":"x","pad":"` + strings.Repeat("x", 64<<10) + `"}`, 0, true, ""},
		{302, `{"access_token":"x"}`, 0, true, ""},
		{400, `{"error":"invalid_scope"}`, 0, false, "invalid_scope"},
		{401, `{"error":"invalid_client","error_description":"hush"}`, 0, false, "invalid_client"},
		{403, `hush`, 0, false, ""},
		{404, `{"error":"hush"}`, 0, true, ""},
		{429, ``, 0, true, ""},
		{503, `{"error":"temporarily_unavailable"}`, 0, true, "temporarily_unavailable"},
	} {
		b.exec(t, "DELETE FROM environment_variables")
		b.set(t, environment.Client{ID: "weft", Secret: "s"})
		status, answer = c.status, c.answer
		token, err := b.source().Get(t.Context(), b.workspace, "T")
		why, refused := errors.AsType[*accesstoken.Error](err)
		if refused != (c.life == 0) || err != nil && !refused {
			t.Errorf("%d %.60s: %+v, %v", c.status, c.answer, token, err)
			continue
		}
		if refused {
			if why.Retryable != c.retryable || why.Word != c.word || strings.Contains(why.Reason, "hush") || (c.status != 200) != (why.Status == c.status) {
				t.Errorf("%d %.60s: %+v", c.status, c.answer, why)
			}
			continue
		}
		var life, fresh float64
		err = b.pool.QueryRow(t.Context(), "SELECT extract(epoch FROM token_expires_at - token_at)::float8, extract(epoch FROM token_refresh_at - token_at)::float8 FROM environment_variables").Scan(&life, &fresh)
		if want := float64(c.life); err != nil || life > want || life < want-60 || life-fresh != 60 {
			t.Errorf("%s: it lives for %v s and is fresh for %v s, %v", c.answer, life, fresh, err)
		}
	}
}

// gate is a token address that answers once it is opened.
type gate struct {
	open    chan struct{}
	began   chan struct{}
	fetches atomic.Int64
}

func newGate() *gate { return &gate{open: make(chan struct{}), began: make(chan struct{}, 1000)} }

func TestOneFetchServesAllProcesses(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"a token": 200, "a failure": 401} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
				n := g.fetches.Add(1)
				g.began <- struct{}{}
				<-g.open
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3600}`, n)
			})
			b.set(t, environment.Client{ID: "weft", Secret: "s"})
			var all sync.WaitGroup
			var right atomic.Int64
			for range 3 {
				s := b.source()
				for range 333 {
					all.Go(func() {
						token, err := s.Get(t.Context(), b.workspace, "T")
						why, failed := errors.AsType[*accesstoken.Error](err)
						if status == 200 && err == nil && token.Value == "token-1" || failed && why.Status == status {
							right.Add(1)
						}
					})
				}
			}
			<-g.began
			close(g.open)
			all.Wait()
			if g.fetches.Load() != 1 || right.Load() != 999 {
				t.Errorf("%d fetches, %d of 999 have the outcome", g.fetches.Load(), right.Load())
			}
		})
	}
}

func TestAnOldTokenIsUsedWhileItLivesAndTheNextOneFails(t *testing.T) {
	t.Parallel()
	fetches, status := 0, 200
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		fetches++
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3600}`, fetches)
	})
	b.set(t, environment.Client{ID: "weft", Secret: "s"})
	s := b.source()
	get := func() (string, error) {
		token, err := s.Get(t.Context(), b.workspace, "T")
		return token.Value, err
	}
	if value, err := get(); value != "token-1" || err != nil {
		t.Fatal(value, err)
	}
	b.exec(t, "UPDATE environment_variables SET token_refresh_at = now()")
	status = 401
	if value, err := get(); value != "token-1" || err != nil || fetches != 2 {
		t.Errorf("%q, %v after %d fetches", value, err, fetches)
	}
	if value, err := get(); value != "token-1" || err != nil || fetches != 2 {
		t.Errorf("right after a failure: %q, %v after %d fetches", value, err, fetches)
	}
	b.exec(t, "UPDATE environment_variables SET token_expires_at = now(), failed_until = NULL")
	if value, err := get(); value != "" || err == nil || fetches != 3 {
		t.Errorf("at its end: %q, %v after %d fetches", value, err, fetches)
	}
	status = 200
	b.set(t, environment.Client{ID: "other"}) // the secret stays; the failure is forgotten
	token, err := s.Get(t.Context(), b.workspace, "T")
	if token.Value != "token-4" || err != nil || fmt.Sprint(token.Replaced) != "[token-1]" {
		t.Errorf("after a change: %+v, %v", token, err)
	}
}

func TestADroppedTokenIsFetchedAgainUnlessItIsYoungOrReplaced(t *testing.T) {
	t.Parallel()
	fetches := 0
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		fetches++
		fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3600}`, fetches)
	})
	b.set(t, environment.Client{ID: "weft", Secret: "s"})
	s := b.source()
	for _, c := range []struct {
		age    string
		number int64
		want   string
	}{{"1 second", 1, "token-1"}, {"1 minute", 1, "token-2"}, {"1 minute", 1, "token-2"}, {"1 minute", 2, "token-3"}} {
		if _, err := s.Get(t.Context(), b.workspace, "T"); err != nil {
			t.Fatal(err)
		}
		b.exec(t, "UPDATE environment_variables SET token_at = now() - interval '"+c.age+"'")
		if err := s.Drop(t.Context(), b.workspace, "T", c.number); err != nil {
			t.Fatal(err)
		}
		if token, err := s.Get(t.Context(), b.workspace, "T"); err != nil || token.Value != c.want {
			t.Errorf("%+v: %+v, %v", c, token, err)
		}
	}
	b.exec(t, "DELETE FROM environment_variables")
	if why, is := errors.AsType[*accesstoken.Error](func() error { _, err := s.Get(t.Context(), b.workspace, "T"); return err }()); !is || why.Retryable {
		t.Errorf("deleted: %v", why)
	}
}

func TestATokenAddressInsideTheNetworkIsNotCalled(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { t.Error("it was called") })
	b.guard = egress.New(egress.Policy{})
	b.set(t, environment.Client{ID: "weft", Secret: "s"})
	if why, is := errors.AsType[*accesstoken.Error](func() error { _, err := b.source().Get(t.Context(), b.workspace, "T"); return err }()); !is || why.Retryable {
		t.Errorf("%v", why)
	}
}

// The process that fetches counts as lost when its lease ends. What it brings later is not stored.
func TestAFetchWhoseProcessDiedIsTakenOver(t *testing.T) {
	t.Parallel()
	g := newGate()
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		n := g.fetches.Add(1)
		g.began <- struct{}{}
		if n == 1 {
			<-g.open
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3600}`, n)
	})
	b.set(t, environment.Client{ID: "weft", Secret: "s"})
	lost := make(chan string)
	go func() {
		token, err := b.source().Get(context.WithoutCancel(t.Context()), b.workspace, "T")
		lost <- fmt.Sprint(token.Value, err)
	}()
	<-g.began
	var lease float64
	if err := b.pool.QueryRow(t.Context(), "SELECT extract(epoch FROM fetching_until - now())::float8 FROM environment_variables").Scan(&lease); err != nil || lease <= 10 || lease > 15 {
		t.Errorf("the lease ends in %v s, %v", lease, err)
	}
	b.exec(t, "UPDATE environment_variables SET fetching_until = now()")
	for range 2 {
		if token, err := b.source().Get(t.Context(), b.workspace, "T"); err != nil || token.Value != "token-2" || g.fetches.Load() != 2 {
			t.Errorf("%+v, %v after %d fetches", token, err, g.fetches.Load())
		}
	}
	close(g.open)
	if got := <-lost; got != "token-2<nil>" {
		t.Errorf("the process that was slow has %s", got)
	}
}
