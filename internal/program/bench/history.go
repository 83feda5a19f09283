package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// history compares a database with millions of finished executions with an almost empty one, under
// the loads of P1, P2 and P10.
func (r *rig) history(ctx context.Context, empty *deployment) ([]series, error) {
	full, err := r.startSingleProcess(ctx, "full")
	if err != nil {
		return nil, err
	}
	defer full.stop()
	if err := r.fill(ctx, full); err != nil {
		return nil, err
	}
	loads := func(d *deployment) ([]load, error) {
		read, err := r.reading(ctx, d)
		return []load{r.inlineLoad(ctx, d, 1, noEffect), r.inlineLoad(ctx, d, 64, noEffect), read}, err
	}
	without, err := loads(empty)
	if err != nil {
		return nil, err
	}
	with, err := loads(full)
	if err != nil {
		return nil, err
	}
	var results []series
	for i := range with {
		s, err := alternate(r.Runs, without[i].measure(sample.rate), with[i].measure(sample.rate))
		if err != nil {
			return nil, err
		}
		s.note = fmt.Sprintf("%d finished executions", r.Rows)
		results = append(results, s)
	}
	return results, nil
}

// copied lists the columns that differ between the copies of a finished execution: IDs and times,
// spread evenly over the last 25 days. Copies cost nothing, so the account stays correct.
var copied = map[string]string{
	"id":    "(lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || '7' || substr(t.random, 1, 3) || '8' || substr(t.random, 4, 15))::uuid",
	"usage": "0", "reserved": "0",
	"attempt_started_at": "t.at", "created_at": "t.at", "updated_at": "t.at", "finished_at": "t.at",
}

// fillRows returns the statement that creates the copies for the given columns, each with its
// posting, so that audits find no error. Its parameters are the model's ID, the first and the last
// number, and the total number.
func fillRows(columns []string) string {
	names, values := make([]string, len(columns)), make([]string, len(columns))
	for i, column := range columns {
		names[i] = pgx.Identifier{column}.Sanitize()
		values[i] = "e." + names[i]
		if value, other := copied[column]; other {
			values[i] = value
		}
	}
	return "WITH made AS (INSERT INTO component_executions (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") + `
FROM component_executions e, LATERAL (
	SELECT now() - interval '25 days' * (1 - n::float8 / $4) AS at, md5(n::text) AS random FROM generate_series($2::integer, $3::integer) AS n
) AS t
WHERE e.id = $1
RETURNING workspace_id, id, finished_at)
INSERT INTO credit_postings (workspace_id, id, kind, reference, created_at)
SELECT made.workspace_id, made.id, 'EXECUTION', made.id::text, made.finished_at FROM made`
}

// fill writes finished executions and their postings directly into the database, and vacuums the
// tables.
func (r *rig) fill(ctx context.Context, d *deployment) error {
	const batch = 250_000
	model, err := d.model(ctx)
	if err != nil {
		return err
	}
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SET statement_timeout = 0; SET synchronous_commit = off"); err != nil {
		return fmt.Errorf("prepare to fill: %w", err)
	}
	rows, err := conn.Query(ctx, "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'component_executions'")
	if err != nil {
		return fmt.Errorf("prepare to fill: %w", err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("prepare to fill: %w", err)
	}
	statement := fillRows(columns)
	began := time.Now()
	for first := 1; first <= r.Rows; first += batch {
		last := min(first+batch-1, r.Rows)
		if _, err := conn.Exec(ctx, statement, model, first, last, float64(r.Rows)); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
		r.logf("P11: %d of %d finished executions after %s", last, r.Rows, time.Since(began).Round(time.Second))
	}
	for _, statement := range []string{
		"VACUUM (ANALYZE) component_executions", "VACUUM (ANALYZE) credit_postings", "RESET statement_timeout", "RESET synchronous_commit",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		r.logf("P11: no checkpoint before the runs: %v", err) // the role may lack the privilege
	}
	r.logf("P11: filled in %s", time.Since(began).Round(time.Second))
	return nil
}

// model returns the ID of the execution that is copied.
func (d *deployment) model(ctx context.Context) (string, error) {
	answer, err := once(ctx, d.inline(noEffect(nil)))
	if err != nil {
		return "", err
	}
	var made record
	if err := json.Unmarshal(answer, &made); err != nil {
		return "", fmt.Errorf("read a record: %w", err)
	}
	return made.ID, completed(answer)
}
