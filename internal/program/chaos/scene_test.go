package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
)

const masterKey = "Q3n3G9tZVBAr4+yvjYzP13mgUDWGORA53uyZgpLfBTM="

// tenant is a workspace with a key.
type tenant struct {
	id     uuid.UUID
	key    auth.Created
	signer *client.Signer
}

// scene is the database of one scenario, its tenants, upstream and receiver.
type scene struct {
	t        testing.TB
	dsn      string // as the processes use it
	pool     *pgxpool.Pool
	tenants  []tenant
	upstream *upstream
	receiver *receiver
	ledger   ledger
	expect   expectations
	refs     atomic.Int64
	http     *http.Transport

	mu    sync.Mutex
	all   []*process
	nodes []*process // processes that serve, from which clients choose
}

// newScene creates a scenario with two tenants on a server.
func newScene(t testing.TB, on *server) *scene {
	t.Helper()
	s := newSceneOn(t, on.database(t))
	for i := range 2 {
		s.tenants = append(s.tenants, s.newTenant(fmt.Sprintf("tenant %d", i)))
	}
	return s
}

// newSceneOn creates a scenario without tenants on a database.
func newSceneOn(t testing.TB, dsn string) *scene {
	t.Helper()
	s := &scene{
		t: t, dsn: dsn, pool: openPool(t, dsn), upstream: newUpstream(t), receiver: newReceiver(t),
		http: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second},
	}
	s.ledger.init()
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

func (s *scene) newTenant(name string) tenant {
	s.t.Helper()
	return s.newTenantWith(name, credit.Credits(1_000_000))
}

func (s *scene) newTenantWith(name string, paid credit.Amount) tenant {
	s.t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := workspace.Create(s.t.Context(), s.pool, workspace.CreateParams{ID: id, Name: name, Plan: plan.Enterprise, Paid: paid}); err != nil {
		s.t.Fatal(err)
	}
	return tenant{id: id}.withKey(s)
}

func (n tenant) withKey(s *scene) tenant {
	s.t.Helper()
	var err error
	if n.key, err = auth.NewKeys(s.pool).Create(s.t.Context(), auth.CreateParams{WorkspaceID: n.id, Label: "chaos"}); err != nil {
		s.t.Fatal(err)
	}
	if n.signer, err = client.NewSigner(n.key.APIKey, n.key.APISecret); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// start launches a weft on the scene's database and waits until it runs. Settings are NAME=value and
// override the scene's.
func (s *scene) start(command string, settings ...string) *process {
	s.t.Helper()
	return s.join(s.launch(command, settings...))
}

// join waits until a process runs. Clients then choose from the processes that serve.
func (s *scene) join(p *process) *process {
	s.t.Helper()
	p.await(s.t)
	if api, _ := p.addresses(); api != "" {
		s.mu.Lock()
		s.nodes = append(s.nodes, p)
		s.mu.Unlock()
	}
	return p
}

// launch is start without waiting.
func (s *scene) launch(command string, settings ...string) *process {
	s.t.Helper()
	return s.launchOf(program, command, append([]string{"WEFT_DRAIN_DELAY=0s"}, settings...)...)
}

// launchOf is like launch, but runs the given binary.
func (s *scene) launchOf(binary, command string, settings ...string) *process {
	s.t.Helper()
	env := append([]string{
		"DATABASE_URL=" + s.dsn, "WEFT_MASTER_KEY=" + masterKey, "WEFT_ALLOW_NETWORKS=127.0.0.0/8",
		"WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_CALLBACK_SCHEDULE=0s,300ms,1s,2s,3s,5s,10s",
	}, settings...)
	p := launch(s.t, binary, env, strings.Fields(command)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	return p
}

// node returns one of the running processes that serve, in rotation.
func (s *scene) node() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choose()
}

// lease returns a node for a submission. The caller calls done after it.
func (s *scene) lease() (p *process, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.choose(); p == nil {
		return nil, func() {}
	}
	p.submissions.Add(1)
	return p, func() { p.submissions.Add(-1) }
}

// choose returns the nodes in rotation. The caller holds s.mu.
func (s *scene) choose() *process {
	for range s.nodes {
		first := s.nodes[0]
		s.nodes = append(s.nodes[1:], first)
		if !first.ended() {
			return first
		}
	}
	return nil
}

// leave removes a process from the processes that clients choose from.
func (s *scene) leave(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, node := range s.nodes {
		if node == p {
			s.nodes = append(s.nodes[:i:i], s.nodes[i+1:]...)
			return
		}
	}
}

// drain calls leave and waits for the submissions in flight. A load balancer does the same before a
// process is stopped.
func (s *scene) drain(p *process) {
	s.t.Helper()
	s.leave(p)
	eventually(s.t, 20*time.Second, p.name+" to have no submission", func() (bool, string) {
		n := p.submissions.Load()
		return n == 0, fmt.Sprint(n)
	})
}

// client returns a client of one node with a tenant's key.
func (s *scene) client(p *process, of tenant) *client.Client {
	base, _ := p.addresses()
	c, err := client.New(base, of.signer, s.http)
	if err != nil {
		panic(err) // cannot happen: the process reported the address
	}
	return c
}

var errNoNode = errors.New("no process serves")

// order is an execution to submit.
type order struct {
	tenant   int
	unsafe   bool // a POST that must not be repeated
	refuse   bool // the upstream responds 503
	millis   int  // duration of the upstream's response
	attempts int
	callback bool
	wait     time.Duration
	module   string // "": API_CALL on the upstream
	to       string // callback URL; "": the scene's receiver
	once     string // Idempotency-Key
	ref      string // identifies the effect to the upstream; set at the first submission
}

// request returns the request body of an order.
func (s *scene) request(o order) api.ExecuteComponentRequest {
	body := api.ExecuteComponentRequest{Module: "RANDOM_UUID", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{}`)}
	if o.module != "" {
		body.Module = o.module
	} else {
		method := "GET"
		if o.unsafe {
			method = "POST"
		}
		body.Module = "API_CALL"
		body.Config = fmt.Appendf(nil, `{"apiUrl":%q,"method":%q,"timeoutMs":60000}`, s.upstream.URL+"/effect", method)
		body.Input = fmt.Appendf(nil, `{"query":{"ref":%q,"ms":%d,"refuse":%v},"headers":{}}`, o.ref, o.millis, o.refuse)
	}
	if o.attempts > 0 {
		body.Attempts = new(int32(o.attempts))
	}
	if o.wait > 0 {
		body.WaitForMs = new(int32(o.wait.Milliseconds()))
	}
	if o.callback {
		to := s.receiver.URL + "/callback"
		if o.to != "" {
			to = o.to
		}
		body.CallbackURL, body.CallbackSecret = &to, new(callbackSecret)
	}
	return body
}

// submit submits an order once and records an acknowledgement.
func (s *scene) submit(ctx context.Context, p *process, o order) (api.ComponentExecution, error) {
	if p == nil {
		return api.ComponentExecution{}, errNoNode
	}
	if o.ref == "" {
		o.ref = fmt.Sprint("r", s.refs.Add(1))
	}
	header := http.Header{}
	if o.once != "" {
		header.Set("Idempotency-Key", o.once)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	asked := time.Now()
	record, raw, err := s.client(p, s.tenants[o.tenant]).Execute(ctx, s.request(o), header)
	if err == nil {
		s.ledger.acknowledge(record.ID, ack{order: o, at: time.Now()})
		s.ledger.observe(record.ID, record.Status, raw, "a submission", asked)
	}
	return record, err
}

// submitUntilAcknowledged submits an order until the order is acknowledged. Between attempts it
// waits as long as Retry-After says. It returns the number of failed attempts.
func (s *scene) submitUntilAcknowledged(ctx context.Context, o order) (record api.ComponentExecution, refused int, err error) {
	deadline := waittest.Deadline(s.t)
	o.ref = fmt.Sprint("r", s.refs.Add(1)) // a repeat is the same request
	if o.unsafe {
		o.once = o.ref // an Idempotency-Key, so that it has no second effect
	}
	for {
		p, done := s.lease()
		record, err = s.submit(ctx, p, o)
		done()
		if err == nil || s.t.Failed() || time.Now().After(deadline) {
			return record, refused, err
		}
		refused++
		wait := 100 * time.Millisecond
		if problem, ok := errors.AsType[*client.Problem](err); ok {
			if problem.Status != http.StatusServiceUnavailable {
				return record, refused, err
			}
			wait = problem.RetryAfter
		}
		select {
		case <-ctx.Done():
			return record, refused, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// load submits n orders concurrently, each until it is acknowledged.
func (s *scene) load(n int, make func(i int) order) {
	s.t.Helper()
	var next atomic.Int64
	var once sync.Once
	workers(s.t.Context(), 16, func(ctx context.Context, _ int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if _, _, err := s.submitUntilAcknowledged(ctx, make(i)); err != nil && ctx.Err() == nil {
				once.Do(func() { s.t.Errorf("submit: %v", err) })
			}
		}
	})
}

// mixed returns orders of both tenants with different durations, and with callbacks.
func mixed(i int) order {
	return order{tenant: i % 2, millis: 200 + (i*37)%600, callback: true}
}
