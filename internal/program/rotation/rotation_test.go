package rotation_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(id string, seed byte) seal.Key {
	k := seal.Key{ID: id}
	for i := range k.Secret {
		k.Secret[i] = seed*31 + byte(i*i*7) + byte(i)
	}
	return k
}

func ring(t *testing.T, primary seal.Key, others ...seal.Key) *seal.Keyring {
	t.Helper()
	r, err := seal.NewKeyring(primary, others...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rows are executions with callbacks, whose values are sealed.
type rows struct {
	pool      *pgxpool.Pool
	workspace uuid.UUID
	ids       []uuid.UUID
}

// fill creates n live executions with callbacks.
func fill(t *testing.T, pool *pgxpool.Pool, under *seal.Keyring, n int) *rows {
	t.Helper()
	r := &rows{pool: pool, workspace: newID(t)}
	if _, err := workspace.Create(t.Context(), pool, workspace.CreateParams{ID: r.workspace, Name: r.workspace.String(), Plan: plan.Enterprise}); err != nil {
		t.Fatal(err)
	}
	var ids []uuid.UUID
	var calls, secrets [][]byte
	for i := range n {
		id := newID(t)
		ids = append(ids, id)
		calls = append(calls, sealed(t, under, fmt.Sprint("call ", i), execution.SealedAt(r.workspace, id)))
		secrets = append(secrets, sealed(t, under, fmt.Sprint("secret ", i), callback.SealedAt(r.workspace, id)))
	}
	r.ids = ids
	for _, statement := range []string{
		`INSERT INTO component_executions (workspace_id, id, module, status, call, attempts, job_id, has_callback, created_at, updated_at)
		 SELECT $1, unnest($2::uuid[]), 'M', 'CREATED', unnest($3::bytea[]), 1, 1, true, now(), now()`,
		`INSERT INTO callbacks (workspace_id, execution_id, url, sealed, signed, created_at)
		 SELECT $1, unnest($2::uuid[]), 'https://a.example', unnest($3::bytea[]), true, now()`,
	} {
		values := calls
		if strings.Contains(statement, "callbacks") {
			values = secrets
		}
		if _, err := pool.Exec(t.Context(), statement, r.workspace, ids, values); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func sealed(t *testing.T, under *seal.Keyring, plain string, place seal.AAD) []byte {
	t.Helper()
	value, err := under.Seal([]byte(plain), place)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// under returns how many values are sealed under a key.
func (r *rows) under(t *testing.T, k seal.Key) (calls, secrets int) {
	t.Helper()
	header := append([]byte{1, byte(len(k.ID))}, k.ID...)
	err := r.pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM component_executions WHERE substring(call FROM 1 FOR $2) = $1),
		(SELECT count(*) FROM callbacks WHERE substring(sealed FROM 1 FOR $2) = $1)`, header, len(header)).Scan(&calls, &secrets)
	if err != nil {
		t.Fatal(err)
	}
	return calls, secrets
}

// readable checks that the ring opens every value.
func (r *rows) readable(t *testing.T, with *seal.Keyring) {
	t.Helper()
	for i, id := range r.ids {
		var call, secret []byte
		err := r.pool.QueryRow(t.Context(), `SELECT e.call, c.sealed FROM component_executions e
			JOIN callbacks c ON c.workspace_id = e.workspace_id AND c.execution_id = e.id
			WHERE e.workspace_id = $1 AND e.id = $2`, r.workspace, id).Scan(&call, &secret)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := with.Open(call, execution.SealedAt(r.workspace, id)); err != nil || string(plain) != fmt.Sprint("call ", i) {
			t.Fatalf("call %d: %q, %v", i, plain, err)
		}
		if plain, err := with.Open(secret, callback.SealedAt(r.workspace, id)); err != nil || string(plain) != fmt.Sprint("secret ", i) {
			t.Fatalf("secret %d: %q, %v", i, plain, err)
		}
	}
}

func TestMT07ValuesUnderOldKeysAreReencrypted(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 1234)
	r.readable(t, ring(t, fresh, old))

	// An interrupted rotation continues where it stopped.
	ctx, stop := context.WithCancel(t.Context())
	if _, err := rotation.Run(ctx, pool, ring(t, fresh, old), func(rotation.Progress) { stop() }); err == nil {
		t.Fatal("an interrupted rotation returned no error")
	}
	some, _ := r.under(t, fresh)
	if some == 0 || some == len(r.ids) {
		t.Fatalf("%d of %d calls were re-encrypted before the interruption", some, len(r.ids))
	}
	var last rotation.Progress
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), func(p rotation.Progress) { last = p })
	if err != nil || !report.Done() || report.Sealed != 2*len(r.ids)-some {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	if last.Table != "callbacks" || last.Scanned != len(r.ids) || last.Sealed != len(r.ids) {
		t.Errorf("unexpected last progress %+v", last)
	}
	if calls, secrets := r.under(t, old); calls+secrets != 0 {
		t.Errorf("%d calls and %d secrets are still under the old key", calls, secrets)
	}
	r.readable(t, ring(t, fresh)) // without the old key
	if report, err = rotation.Run(t.Context(), pool, ring(t, fresh), nil); err != nil || report.Sealed != 0 || !report.Done() {
		t.Errorf("unexpected report %+v (%v) of a repeated rotation", report, err)
	}
}

func TestMT07RotationWaitsForNoLock(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 50)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // the transaction has finished by then
	if _, err := tx.Exec(t.Context(), "SELECT FROM callbacks WHERE execution_id = $1 FOR UPDATE", r.ids[7]); err != nil {
		t.Fatal(err)
	}
	scanned := 0
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), func(p rotation.Progress) {
		if p.Table != "callbacks" {
			return
		}
		if scanned++; scanned == 4 { // two pages: the second pass has ended, all other rows are done
			if calls, secrets := r.under(t, old); calls != 0 || secrets != 1 {
				t.Errorf("with one row locked, %d calls and %d secrets are under the old key", calls, secrets)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || !report.Done() || report.Sealed != 100 {
		t.Errorf("unexpected report %+v (%v)", report, err)
	}
}

// A process that seals under the old key exits while the last pass runs. The values that it sealed
// after the pass had read their table remain under the old key, regardless of the processes that
// run afterwards.
func TestMT07ProcessThatExitsDuringThePassStillCounts(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := open(t, dsn)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 3)
	holder, err := rotation.Hold(t.Context(), dsn, ring(t, old, fresh), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), func(p rotation.Progress) {
		if p.Table != "callbacks" {
			return
		}
		late := sealed(t, ring(t, old, fresh), "late", execution.SealedAt(r.workspace, r.ids[0]))
		if _, err := pool.Exec(t.Context(), "UPDATE component_executions SET call = $1 WHERE id = $2", late, r.ids[0]); err != nil {
			t.Error(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		holder.Run(ended)
		for uses, err := rotation.Uses(t.Context(), pool); err != nil || len(uses) > 0; uses, err = rotation.Uses(t.Context(), pool) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if err != nil || !report.Done() {
		t.Fatalf("unexpected report %+v (%v)", report, err)
	}
	if calls, _ := r.under(t, old); calls != 1 {
		t.Fatalf("%d calls are under the old key, want 1", calls)
	}
	if len(report.Uses) != 1 || !report.Uses[0].Seals(seal.Fingerprint(old.Secret)) {
		t.Errorf("the report says that the old key is not needed: %+v", report.Uses)
	}
}

// Only a few values are in memory at once, however large they are.
func TestRotationReadsFewValuesAtOnce(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	fill(t, pool, ring(t, old), 100)
	last := rotation.Progress{}
	_, err := rotation.Run(t.Context(), pool, ring(t, fresh, old), func(p rotation.Progress) {
		if p.Table != last.Table {
			last = rotation.Progress{}
		}
		if n := p.Scanned - last.Scanned; n > 32 {
			t.Errorf("%d values of %s were read at once", n, p.Table)
		}
		last = p
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMT07UnreadableValuesAreReportedAndKept(t *testing.T) {
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	r := fill(t, pool, ring(t, old), 3)
	report, err := rotation.Run(t.Context(), pool, ring(t, fresh), nil)
	if err != nil || report.Done() || report.Unreadable != 6 || report.Sealed != 0 || report.First[0] != "component_executions "+r.ids[0].String() {
		t.Errorf("unexpected report %+v (%v)", report, err)
	}
	r.readable(t, ring(t, old))
}

func TestMissingMasterKeyIsLogged(t *testing.T) {
	pool := open(t, pgtest.DSN(t))
	old, fresh := key("2025", 1), key("2026", 2)
	start := func(keys *seal.Keyring) string {
		t.Helper()
		var log bytes.Buffer
		rotation.WarnOfUnreadableValues(t.Context(), pool, keys, slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	const warning = "lacks the master key of some stored values"
	if log := start(ring(t, fresh)); strings.Contains(log, warning) {
		t.Errorf("unexpected warning with no values: %s", log)
	}
	fill(t, pool, ring(t, old), 1)
	fill(t, pool, ring(t, fresh), 500)
	if log := start(ring(t, fresh)); !strings.Contains(log, warning) || !strings.Contains(log, "needed=[2025]") {
		t.Errorf("no warning without the old key: %s", log)
	}
	if log := start(ring(t, fresh, old)); strings.Contains(log, warning) {
		t.Errorf("unexpected warning with both keys: %s", log)
	}
	if log := start(ring(t, old)); !strings.Contains(log, "needed=[2026]") {
		t.Errorf("no warning without the new key: %s", log)
	}
	if _, err := pool.Exec(t.Context(), "DROP TABLE callbacks CASCADE"); err != nil {
		t.Fatal(err)
	}
	if log := start(ring(t, fresh)); !strings.Contains(log, "could not check the keys") {
		t.Errorf("no warning without the table: %s", log)
	}
}

func TestProcessesPublishTheirKeys(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := pgtest.DB(t)
	old, fresh := key("2025", 1), key("2026", 2)
	if uses, err := rotation.Uses(t.Context(), pool); err != nil || len(uses) != 0 {
		t.Fatalf("unexpected uses of another database: %v (%v)", uses, err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	hold := func(keys *seal.Keyring) {
		holder, err := rotation.Hold(ctx, dsn, keys, logger)
		if err != nil {
			t.Fatal(err)
		}
		go func() { holder.Run(ctx); ended <- struct{}{} }()
	}
	hold(ring(t, old))
	if log.Len() > 0 {
		t.Errorf("the first process logs a warning: %s", log.String())
	}
	hold(ring(t, fresh, old))
	if !strings.Contains(log.String(), "does not have this process's master key") {
		t.Errorf("the second process logs no warning: %s", log.String())
	}
	of := open(t, dsn)
	uses, err := rotation.Uses(t.Context(), of)
	if err != nil || len(uses) != 2 {
		t.Fatalf("unexpected uses %v (%v)", uses, err)
	}
	first, second := seal.Fingerprint(old.Secret), seal.Fingerprint(fresh.Secret)
	seals, opens := map[string]int{}, map[string]int{}
	for _, use := range uses {
		for _, print := range []string{first, second} {
			if use.Seals(print) {
				seals[print]++
			}
			if use.Opens(print) {
				opens[print]++
			}
		}
	}
	if seals[first] != 1 || seals[second] != 1 || opens[first] != 2 || opens[second] != 1 {
		t.Errorf("unexpected uses: seals %v, opens %v", seals, opens)
	}
	stop()
	<-ended
	<-ended
	waittest.Until(t, "the keys to be released", func() bool {
		if uses, err = rotation.Uses(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		return len(uses) == 0
	})
}

func open(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
