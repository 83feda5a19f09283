package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// installed creates a database of an owner without superuser rights. The statements run in it before
// it is migrated; OWNER stands for the owner.
func installed(t *testing.T, before ...string) (admin *pgx.Conn, owner, dsn string) {
	t.Helper()
	_ = pgtest.DSN(t) // creating the template creates the roles, as an administrator would
	admin, owner, dsn = owned(t)
	for _, statement := range append([]string{"GRANT weft_api, weft_system TO OWNER"}, before...) {
		if _, err := admin.Exec(t.Context(), strings.ReplaceAll(statement, "OWNER", owner)); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "CREATE SCHEMA other"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return admin, owner, dsn
}

// works uses the database of dsn in all the ways in which a process connects to it.
func works(ctx context.Context, dsn string) error {
	if err := postgres.CheckPooler(ctx, dsn); err != nil {
		return err
	}
	located := func(_ context.Context, _ *pgx.Conn, on postgres.Server) error {
		if on.Place == "" {
			return errors.New("the place of the database is unknown")
		}
		return nil
	}
	for _, role := range []postgres.Role{postgres.Owner, postgres.API, postgres.System} {
		pool, err := postgres.Open(ctx, dsn, "test", role, 1, located)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := errors.Join(postgres.CheckSession(ctx, pool), postgres.CheckWritable(ctx, pool)); err != nil {
			return fmt.Errorf("as %q: %w", role, err)
		}
		var count int
		var state string
		err = pool.QueryRow(ctx, "SELECT count(*), concat_ws(' ', current_schema(), current_setting('transaction_isolation'), current_setting('client_encoding'), now()::date) FROM component_executions").Scan(&count, &state)
		if err != nil || !strings.HasPrefix(state, "public read committed UTF8 20") {
			return fmt.Errorf("as %q: %q, %w", role, state, err)
		}
	}
	return nil
}

// An administrator may set any of these for the role of Weft or for its database. The tables list
// what breaks Weft silently; all others of context user or superuser don't.
func TestSettingsOfARoleOrDatabaseDoNotBreakWeft(t *testing.T) {
	admin, owner, dsn := installed(t)
	for _, setting := range []string{
		"default_transaction_isolation = 'repeatable read'", "default_transaction_isolation = 'serializable'", "row_security = off",
		"search_path = other", "search_path = other, public", "search_path = ''", "idle_session_timeout = '1s'",
		"client_encoding = LATIN1", "client_encoding = SQL_ASCII", "role = pg_monitor", "synchronous_commit = off", "exit_on_error = on",
		"datestyle = 'German, DMY'", "intervalstyle = iso_8601", "bytea_output = escape", "extra_float_digits = -15", "standard_conforming_strings = off",
		"array_nulls = off", "transform_null_equals = on", "quote_all_identifiers = on", "timezone = 'Asia/Tokyo'",
		"enable_indexscan = off", "enable_indexonlyscan = off", "enable_nestloop = off", "enable_partition_pruning = off", "from_collapse_limit = 1", "join_collapse_limit = 1",
		"statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'", "plan_cache_mode = force_custom_plan", "jit = on",
	} {
		name, value, _ := strings.Cut(setting, " = ")
		targets := []string{"ROLE"}
		if name == "search_path" || name == "default_transaction_isolation" { // PostgreSQL applies all of a database like these
			targets = append(targets, "DATABASE")
		}
		for _, target := range targets {
			if _, err := admin.Exec(t.Context(), fmt.Sprintf("ALTER %s %s SET %s", target, owner, setting)); err != nil {
				t.Fatal(err)
			}
			err := works(t.Context(), dsn)
			for errors.Is(err, context.DeadlineExceeded) && t.Context().Err() == nil { // a busy machine needs longer than a connection may take
				err = works(t.Context(), dsn)
			}
			if err != nil {
				t.Errorf("%s %s: %v", target, setting, err)
			}
			conn, err := postgres.Connect(t.Context(), dsn, "test")
			if err != nil {
				t.Fatal(err)
			}
			var now string
			err = conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&now)
			if err != nil || strings.EqualFold(now, strings.Trim(value, "'")) {
				t.Errorf("%s %s: still %q, %v", target, setting, now, err)
			}
			_ = conn.Close(t.Context())
			if _, err := admin.Exec(t.Context(), fmt.Sprintf("ALTER %s %s RESET %s", target, owner, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestSettingsThatWeftMustNotChangeAreRefusedByName(t *testing.T) {
	admin, owner, dsn := installed(t)
	for name, value := range map[string]string{"session_replication_role": "replica", "default_transaction_read_only": "on"} {
		if _, err := admin.Exec(t.Context(), fmt.Sprintf("ALTER ROLE %s SET %s = %s", owner, name, value)); err != nil {
			t.Fatal(err)
		}
		if err := works(t.Context(), dsn); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := admin.Exec(t.Context(), fmt.Sprintf("ALTER ROLE %s RESET %s", owner, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// What the server's configuration turns off is its administrator's decision for all databases.
func TestSynchronousCommitOfTheServerStays(t *testing.T) {
	conn, err := postgres.Connect(t.Context(), pgtest.DSN(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var here string
	if err := conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&here); err != nil || here != "off" {
		t.Errorf("the test server's is off, the session's %q, %v", here, err)
	}
}

func TestANewDatabaseIsInTheSchemaPublic(t *testing.T) {
	for _, c := range []struct{ set, address, want string }{
		{"ALTER ROLE OWNER SET search_path = other, public", "", "public"},
		{"ALTER DATABASE OWNER SET search_path = other", "", "public"},
		{"ALTER ROLE OWNER SET search_path = public", "?search_path=other", "other"},
	} {
		_ = pgtest.DSN(t)
		admin, owner, dsn := owned(t)
		for _, statement := range []string{"GRANT weft_api, weft_system TO OWNER", c.set} {
			if _, err := admin.Exec(t.Context(), strings.ReplaceAll(statement, "OWNER", owner)); err != nil {
				t.Fatal(err)
			}
		}
		separator := "&"
		if !strings.Contains(dsn, "?") {
			separator = "?"
		}
		if c.address != "" {
			dsn += separator + strings.TrimPrefix(c.address, "?")
		}
		pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Exec(t.Context(), "CREATE SCHEMA other"); err != nil {
			t.Fatal(err)
		}
		if err := postgres.Migrate(t.Context(), pool); err != nil {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		var schemas string
		err = pool.QueryRow(t.Context(), "SELECT string_agg(DISTINCT schemaname, ',') FROM pg_tables WHERE tablename IN ('workspaces', 'schema_migrations', 'component_executions')").Scan(&schemas)
		if err != nil || schemas != c.want {
			t.Errorf("%s: the tables are in %q, want %q, %v", c.set, schemas, c.want, err)
		}
	}
}
