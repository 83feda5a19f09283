package callback

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		runChild(dsn)
		return
	}
	goleak.VerifyTestMain(m)
}

// options configure a bench. The zero value delivers through the queue, with the default schedule,
// to loopback only.
type options struct {
	settings Settings
	policy   egress.Policy
	idle     bool // no worker fetches from the queue
	full     bool // all deliveries go through the queue
	chatty   bool // everything is logged
	notified bool // the queue fetches only when it is notified
}

// bench is a database with a deliverer, a queue and a certificate authority.
type bench struct {
	dsn       string
	pool      *pgxpool.Pool
	ca        *egresstest.CA
	keyring   *seal.Keyring
	vault     *vault.Vault
	jobs      *river.Client[pgx.Tx]
	deliverer *Deliverer
	service   *Service
	workspace uuid.UUID
	attempts  chan string // classes of the recorded attempts, in order
	log       *logBuffer
}

// logBuffer stores the log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newBench(t testing.TB, o options) *bench {
	t.Helper()
	b := &bench{dsn: pgtest.DSN(t), ca: egresstest.NewCA(t), workspace: newID(t), attempts: make(chan string, 10_000), log: &logBuffer{}}
	if o.policy.Allow == nil {
		o.policy.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	o.policy.Roots = b.ca.Pool
	var err error
	if b.pool, err = postgres.Open(context.Background(), b.dsn, "test", postgres.Owner, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	b.keyring = testKeyring()
	b.vault = vault.New(b.pool, b.keyring)
	guard := egress.New(o.policy)
	t.Cleanup(guard.Close)
	level := slog.LevelWarn
	if o.chatty {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: level}))
	workers := river.NewWorkers()
	worker := &Worker{}
	river.AddWorker(workers, worker)
	queue := queueConfig(workers, log)
	if o.notified {
		queue.FetchPollInterval = time.Hour
	}
	if b.jobs, err = river.NewClient(riverpgxv5.New(b.pool), queue); err != nil {
		t.Fatal(err)
	}
	b.deliverer = NewDeliverer(Deps{
		DB: b.pool, Jobs: b.jobs, Keyring: b.keyring, Vault: b.vault, Guard: guard, Log: log,
		Attempted: func(class string, _ time.Duration) { b.attempts <- class },
	}, o.settings)
	if o.full {
		b.deliverer.local.held = maxHeld
	}
	worker.Deliverer = b.deliverer
	b.service = NewService(b.pool, b.jobs)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		b.deliverer.Drain(ctx)
	})
	if !o.idle {
		b.start(t)
	}
	return b
}

// start starts the queue. It stops when the test ends.
func (b *bench) start(t testing.TB) {
	t.Helper()
	if err := b.jobs.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := waittest.CleanupContext(t)
		defer cancel()
		if err := b.jobs.StopAndCancel(ctx); err != nil {
			t.Errorf("stop the queue: %v", err)
		}
	})
}

func queueConfig(workers *river.Workers, log *slog.Logger) *river.Config {
	return &river.Config{
		Schema: postgres.RiverSchema, Logger: log, Workers: workers, TestOnly: true,
		FetchCooldown: time.Millisecond, FetchPollInterval: 200 * time.Millisecond,
		Queues: map[string]river.QueueConfig{Queue: {MaxWorkers: 100}},
	}
}

func testKeyring() *seal.Keyring {
	key := seal.Key{ID: "test"}
	for i := range key.Secret {
		key.Secret[i] = byte(i*i + 7)
	}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		panic(err)
	}
	return ring
}

func newID(t testing.TB) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ways are the ways in which deliveries and their retries are made.
var ways = map[string]struct {
	here bool // the finishing process makes the first attempt
	full bool
}{
	"in the finishing process":   {true, false},
	"started by the queue":       {false, false},
	"by the queue alone":         {false, true},
	"refused, then by the queue": {true, true},
}

// wish describes a callback to create.
type wish struct {
	workspace   uuid.UUID // zero: the bench's own
	url         string
	secret      *string
	headers     map[string]string
	traceparent string
}

// accept inserts executions in flight with their callbacks.
func (b *bench) accept(t testing.TB, wishes ...wish) []Final {
	t.Helper()
	var callbacks db.CallbackInsertManyParams
	finals := make([]Final, len(wishes))
	for i, w := range wishes {
		if w.workspace == uuid.Nil {
			w.workspace = b.workspace
		}
		now := time.Now().UTC()
		final, err := OfExecution(t.Context(), b.vault, db.ExecutionGetRow{
			WorkspaceID: w.workspace, ID: newID(t), Module: "RANDOM_UUID", Status: status.ExecutionCompleted,
			Output: json.RawMessage(`{"uuid":"x","n":1.50}`), CreatedAt: now, UpdatedAt: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		finals[i] = final
		sealed, err := Seal(b.keyring, w.workspace, finals[i].ID, Secrets{Secret: w.secret, Headers: w.headers})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range w.headers {
			names = append(names, name)
		}
		callbacks.WorkspaceIds = append(callbacks.WorkspaceIds, w.workspace)
		callbacks.ExecutionIds = append(callbacks.ExecutionIds, finals[i].ID)
		callbacks.Urls = append(callbacks.Urls, w.url)
		callbacks.Sealed = append(callbacks.Sealed, sealed)
		callbacks.Signed = append(callbacks.Signed, w.secret != nil)
		callbacks.HeaderNames = append(callbacks.HeaderNames, strings.Join(names, ","))
		_, err = b.pool.Exec(t.Context(), `INSERT INTO component_executions
			(workspace_id, id, module, status, call, attempts, attempt, job_id, has_callback, traceparent, created_at, updated_at)
			VALUES ($1, $2, 'RANDOM_UUID', 'EXECUTING', '', 1, 1, 0, true, NULLIF($3, ''), now(), now())`, w.workspace, finals[i].ID, w.traceparent)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.New().CallbackInsertMany(t.Context(), b.pool, callbacks); err != nil {
		t.Fatal(err)
	}
	return finals
}

// finish makes executions final. If here is true, this process delivers what it has room for.
func (b *bench) finish(t testing.TB, here bool, finals ...Final) {
	t.Helper()
	var ready *Ready
	err := postgres.InTx(t.Context(), b.pool, nil, func(tx *postgres.Tx) error {
		ids := make([]uuid.UUID, len(finals))
		for i, f := range finals {
			ids[i] = f.ID
		}
		_, err := tx.Exec(t.Context(), "UPDATE component_executions SET status = 'COMPLETED', output = '{}', finished_at = now() WHERE id = ANY($1) AND finished_at IS NULL", ids)
		if err != nil {
			return err
		}
		var deliverer *Deliverer
		if here {
			deliverer = b.deliverer
		}
		ready, err = deliverer.FreezeManyTx(t.Context(), tx, b.vault, finals)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ready.Start()
}

// submit calls accept and finish for one callback, which is delivered through the queue.
func (b *bench) submit(t testing.TB, w wish) Final {
	t.Helper()
	final := b.accept(t, w)[0]
	b.finish(t, false, final)
	return final
}

// await waits for n recorded attempts and returns their classes.
func (b *bench) await(t testing.TB, n int) []string {
	t.Helper()
	over := waittest.Context(t).Done()
	var classes []string
	for len(classes) < n {
		select {
		case class := <-b.attempts:
			classes = append(classes, class)
		case <-over:
			t.Fatalf("%d attempts of %d after a minute; log:\n%s", len(classes), n, b.log)
		}
	}
	return classes
}

func (b *bench) row(t testing.TB, f Final) db.Callback {
	t.Helper()
	row, err := db.New().CallbackGet(t.Context(), b.pool, db.CallbackGetParams{WorkspaceID: f.WorkspaceID, ExecutionID: f.ID})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// jobsLeft counts the delivery jobs that may still run.
func (b *bench) jobsLeft(t testing.TB) (n int) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM river.river_job WHERE kind = $1 AND state IN ('available', 'scheduled', 'retryable', 'pending')", Args{}.Kind()).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// received is one request that the receiver got.
type received struct {
	header http.Header
	method string
	body   []byte
	at     time.Time
}

// receiver records requests and answers them with a function.
type receiver struct {
	url    string
	mu     sync.Mutex
	got    []received
	answer func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1
}

// receiver starts an HTTPS receiver. It answers 200 if answer is nil.
func (b *bench) receiver(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.url = b.ca.Server(t, r).URL + "/hook"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	r.got = append(r.got, received{header: request.Header, method: request.Method, body: body, at: time.Now()})
	n := len(r.got)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(n, w, request)
	}
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

// plainServer serves without TLS on loopback.
func plainServer(t testing.TB, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL + "/hook"
}

// always answers every request with one status.
func always(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// failure decodes the stored error of an attempt.
func failure(t testing.TB, raw []byte) (class string, code int) {
	t.Helper()
	if raw == nil {
		return "", 0
	}
	var e struct {
		Class      string
		Message    string
		HTTPStatus *int
	}
	if err := json.Unmarshal(raw, &e); err != nil || e.Message == "" {
		t.Fatalf("stored error %s: %v", raw, err)
	}
	if e.HTTPStatus != nil {
		code = *e.HTTPStatus
	}
	return e.Class, code
}

// times returns a schedule of n attempts with minimal delays.
func times(n int) []time.Duration {
	schedule := make([]time.Duration, n)
	for i := 1; i < n; i++ {
		schedule[i] = time.Millisecond
	}
	return schedule
}
