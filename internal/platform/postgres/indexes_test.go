package postgres_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// An index that a migration declares is built in every partition, even after an interrupted
// build. Complete indexes are not rebuilt.
func TestAnIndexOfAPartitionedTableIsCompleted(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var partitions, built int
	count := func() (valid bool) {
		t.Helper()
		err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_inherits WHERE inhparent = 'component_executions'::regclass),
			(SELECT count(*) FROM pg_inherits WHERE inhparent = x.indexrelid), x.indisvalid
			FROM pg_index x WHERE x.indexrelid = 'later_component_executions'::regclass`).Scan(&partitions, &built, &valid)
		if err != nil {
			t.Fatal(err)
		}
		return valid
	}
	exec("CREATE INDEX later_component_executions ON ONLY component_executions (created_at) WHERE parked")
	exec("CREATE INDEX component_executions_default_later ON component_executions_default (id)") // left by an interrupted build
	exec("CREATE TABLE component_executions_late (LIKE component_executions INCLUDING ALL)")
	exec(`ALTER TABLE component_executions ATTACH PARTITION component_executions_late
		FOR VALUES FROM ('ffffffff-0000-7000-8000-000000000000') TO ('ffffffff-0000-7000-8000-000000000001')`)
	if count(); built != 1 {
		t.Fatalf("%d partitions have the index, want only the one that was created after it", built)
	}
	for range 2 {
		if err := postgres.Migrate(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		if valid := count(); !valid || built != partitions {
			t.Errorf("%d of %d partitions have the index, valid %v", built, partitions, valid)
		}
	}
}

// tooExpensive is PostgreSQL's disable_cost, which it adds to a plan that has to scan a whole
// table although the session forbids it. Such a query lacks an index.
const tooExpensive = 1e10

// EXPLAIN shows the plan that a process uses: its sessions always use generic plans.
func TestEveryQueryHasAPlanByIndexes(t *testing.T) {
	queries := generatedQueries(t)
	dsn := pgtest.DSN(t)
	for _, role := range []postgres.Role{postgres.Owner, postgres.API, postgres.System} {
		pool, err := postgres.Open(t.Context(), dsn, "test", role, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		for name, sql := range queries {
			cost, err := planCost(t.Context(), pool, sql)
			switch {
			case role != postgres.Owner && postgres.Raised(err, "42501"): // this role does not run the query
			case err != nil:
				t.Errorf("%s as %q: %v", name, role, err)
			case cost >= tooExpensive:
				t.Errorf("%s as %q: the plan costs %.4g. Add an index, or write the query so that it uses one", name, role, cost)
			}
		}
	}
}

// planCost returns the cost of the generic plan of a query.
func planCost(ctx context.Context, pool *pgxpool.Pool, sql string) (float64, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	prepared, err := conn.Conn().Prepare(ctx, "planned", sql)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Conn().Deallocate(ctx, "planned") }()
	execute := "EXPLAIN (FORMAT JSON) EXECUTE planned"
	if n := len(prepared.ParamOIDs); n > 0 {
		execute += "(" + strings.Repeat("NULL, ", n-1) + "NULL)"
	}
	var plans []struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
	}
	if err := conn.QueryRow(ctx, execute).Scan(&plans); err != nil {
		return 0, err
	}
	return plans[0].Plan.Cost, nil
}

// generatedQueries returns the SQL of all queries of gen/db, by the names of their constants.
func generatedQueries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../../gen/db/*.sql.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no generated queries: %v", err)
	}
	queries := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				if literal, ok := spec.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, "`-- name: ") {
					queries[spec.Names[0].Name] = strings.Trim(literal.Value, "`")
				}
			}
			return true
		})
	}
	return queries
}
