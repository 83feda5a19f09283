package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// texts returns the rows of a query with one column.
func texts(t *testing.T, pool *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ofWorkspaces selects the tables whose rows belong to workspaces.
const ofWorkspaces = `(SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
	AND (c.relname = 'workspaces' OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped)))`

// Row level security separates workspaces, in addition to the conditions of queries. Each of
// these queries lists violations. The queries also cover tables that are added later.
func TestMT02RowSecurityHasNoGap(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for name, sql := range map[string]string{
		"roles of processes with too many rights": `SELECT rolname::text FROM pg_roles WHERE rolname IN ('weft_api', 'weft_system')
			AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication)`,
		"missing roles": `SELECT r FROM unnest(ARRAY['weft_api', 'weft_system']) r WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r)`,
		"roles of processes that are members of another role": `SELECT m.member::regrole::text FROM pg_auth_members m
			WHERE m.member IN ('weft_api'::regrole, 'weft_system'::regrole)`,
		"objects that roles of processes own": `SELECT oid::regclass::text FROM pg_class WHERE relowner IN ('weft_api'::regrole, 'weft_system'::regrole)
			UNION ALL SELECT oid::regprocedure::text FROM pg_proc WHERE proowner IN ('weft_api'::regrole, 'weft_system'::regrole)
			UNION ALL SELECT nspname::text FROM pg_namespace WHERE nspowner IN ('weft_api'::regrole, 'weft_system'::regrole)`,
		"schemas in which processes may create objects": `SELECT n.nspname || ' ' || r FROM pg_namespace n, unnest(ARRAY['weft_api', 'weft_system']) r
			WHERE n.nspname IN ('public', 'river') AND has_schema_privilege(r, n.oid, 'CREATE')`,
		"tables of workspaces or people without forced row security": `SELECT c.oid::regclass::text FROM pg_class c
			WHERE (c.oid IN ` + ofWorkspaces + ` OR c.oid = 'users'::regclass) AND NOT (c.relrowsecurity AND c.relforcerowsecurity)`,
		"tables of workspaces without the three policies, or with more": `SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid IN ` + ofWorkspaces + `
			AND (SELECT array_agg(p.polname::text || ' ' || p.polroles::regrole[]::text ORDER BY p.polname) FROM pg_policy p WHERE p.polrelid = c.oid)
			IS DISTINCT FROM ARRAY['of_owner {' || c.relowner::regrole || '}', 'of_system {weft_system}', 'of_workspace {weft_api}']`,
		"policies that show requests more than their workspaces": `SELECT p.polrelid::regclass::text FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
			WHERE p.polname = 'of_workspace' AND c.relname NOT IN ('users', 'river_job') AND (p.polcmd <> '*' OR NOT p.polpermissive OR p.polwithcheck IS NOT NULL
			OR pg_get_expr(p.polqual, p.polrelid) <> format('(%s = ANY (( SELECT current_workspaces() AS current_workspaces)::uuid[]))',
				CASE c.relname WHEN 'workspaces' THEN 'id' ELSE 'workspace_id' END))`,
		"partitions with grants": `SELECT c.oid::regclass::text FROM pg_class c, aclexplode(c.relacl) a
			WHERE c.relispartition AND a.grantee <> c.relowner`,
		"tables with grants to PUBLIC": `SELECT c.oid::regclass::text FROM pg_class c, aclexplode(c.relacl) a
			WHERE c.relnamespace IN ('public'::regnamespace, 'river'::regnamespace) AND a.grantee = 0`,
		"tables from which requests may delete": `SELECT c.oid::regclass::text FROM pg_class c
			WHERE c.oid IN ` + ofWorkspaces + ` AND c.relname NOT IN ('members', 'open_calls', 'environment_variables', 'schedules', 'hooks') AND has_table_privilege('weft_api', c.oid, 'DELETE, TRUNCATE')`,
		"functions with the owner's rights that requests may call": `SELECT p.oid::regprocedure::text FROM pg_proc p
			WHERE p.prosecdef AND p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND has_function_privilege('weft_api', p.oid, 'EXECUTE')`,
		"functions with the owner's rights without a fixed search path, or with temporary tables first": `SELECT p.oid::regprocedure::text FROM pg_proc p
			WHERE p.prosecdef AND p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
			AND 'search_path=public, pg_temp' <> ALL (COALESCE(p.proconfig, '{}'))`,
	} {
		if found := texts(t, pool, sql); len(found) > 0 {
			t.Errorf("%s: %s", name, strings.Join(found, ", "))
		}
	}
}

// Row level security doesn't cover tables without a workspace. The following list has all such
// tables.
func TestMT02TablesWithoutRowSecurityAreListed(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for name, check := range map[string]struct {
		sql  string
		want []string
	}{
		"functions with the owner's rights": {
			`SELECT proname::text FROM pg_proc WHERE prosecdef AND pronamespace IN ('public'::regnamespace, 'river'::regnamespace) ORDER BY 1`,
			[]string{"default_partition_rows", "default_partition_weeks", "drop_partitions", "make_partitions", "note_final_partitions", "session_health"},
		},
		"tables without a workspace that requests may read": {
			`SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
			AND c.oid NOT IN ` + ofWorkspaces + ` AND NOT c.relispartition AND has_table_privilege('weft_api', c.oid, 'SELECT') ORDER BY 1`,
			[]string{"schema_migrations", "workers"},
		},
		// TestMT02PeopleAreVisibleOnlyToTheirWorkspaces covers these.
		"columns of other tables that requests may read": {
			`SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped
			AND NOT has_table_privilege('weft_api', c.oid, 'SELECT') AND has_column_privilege('weft_api', c.oid, a.attnum, 'SELECT') ORDER BY 1`,
			[]string{"users.email", "users.id", "users.name", "users.verified_at"},
		},
		"tables of workspaces that requests may not read": {
			`SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid IN ` + ofWorkspaces + ` AND NOT has_table_privilege('weft_api', c.oid, 'SELECT') ORDER BY 1`,
			[]string{"credit_checkpoints", "output_keys"},
		},
		"rights of requests on tables that River adds later": {
			`SELECT d.defaclobjtype::text FROM pg_default_acl d, aclexplode(d.defaclacl) a WHERE a.grantee = 'weft_api'::regrole ORDER BY 1`,
			nil,
		},
	} {
		if found := texts(t, pool, check.sql); !slices.Equal(found, check.want) {
			t.Errorf("%s: %q, want %q", name, found, check.want)
		}
	}
}

// The following list has all rights of requests. Adding a right needs a reason.
func TestMT02RequestsHaveExactlyTheseRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for name, check := range map[string]struct {
		sql  string
		want []string
	}{
		"the database": {
			`SELECT p FROM unnest(ARRAY['CONNECT', 'CREATE', 'TEMPORARY']) p WHERE has_database_privilege('weft_api', current_database(), p) ORDER BY 1`,
			[]string{"CONNECT"},
		},
		"schemas": {
			`SELECT n.nspname || ' ' || p FROM pg_namespace n, unnest(ARRAY['USAGE', 'CREATE']) p
			WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND has_schema_privilege('weft_api', n.oid, p) ORDER BY 1`,
			[]string{"public USAGE", "river USAGE"},
		},
		"sequences": {
			`SELECT c.oid::regclass || ' ' || p FROM pg_class c, unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) p
			WHERE c.relkind = 'S' AND has_sequence_privilege('weft_api', c.oid, p) ORDER BY 1`,
			[]string{"river.river_job_id_seq USAGE"},
		},
		"whole tables": {
			`SELECT concat(c.oid::regclass, ' ', string_agg(left(p, 1), '' ORDER BY p)) FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
			WHERE c.relnamespace IN ('public'::regnamespace, 'river'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_table_privilege('weft_api', c.oid, p)
			GROUP BY c.oid ORDER BY c.oid::regclass::text COLLATE "C"`,
			[]string{ // delete, insert, select, update
				"api_keys ISU", "audit_events IS", "callback_attempts IS", "callbacks ISU", "component_executions IS", "credit_accounts ISU",
				"credit_postings IS", "environment_variables DISU", "hook_deliveries IS", "hooks DISU", "idempotency_keys ISU", "invitations ISU",
				"members DISU", "open_calls DISU", "rate_limits ISU", "river.river_job S", "run_events IS", "run_signals IS", "run_stages IS", "run_trees ISU",
				"schedules DISU", "schema_migrations S", "variable_changes ISU", "workers S", "workflow_runs IS", "workflow_secrets IS", "workflow_versions IS",
				"workflows ISU", "workspaces S",
			},
		},
		"single columns": {
			`SELECT concat(c.oid::regclass, ' ', p, ' ', string_agg(a.attname, ' ' ORDER BY a.attname)) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) p
			WHERE c.relnamespace IN ('public'::regnamespace, 'river'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped
			AND has_column_privilege('weft_api', c.oid, a.attnum, p) AND NOT has_table_privilege('weft_api', c.oid, p) GROUP BY c.oid, p ORDER BY 1`,
			[]string{
				"river.river_job INSERT args created_at id kind max_attempts metadata priority queue scheduled_at state tags unique_key unique_states",
				"river.river_job UPDATE kind",
				"users SELECT email id name verified_at",
				"workflow_runs UPDATE cancel_mode cancel_reason cancel_requested_at updated_at wake_at",
			},
		},
	} {
		if found := texts(t, pool, check.sql); !slices.Equal(found, check.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(found, "\n"), strings.Join(check.want, "\n"))
		}
	}
}

// Each request sees and changes only the jobs of its workspaces.
func TestMT02RequestsReachOnlyTheJobsOfTheirWorkspaces(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	owner, err := postgres.Connect(t.Context(), dsn, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.Background()) }()
	const insert = `INSERT INTO river.river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags)
		VALUES (jsonb_build_object('workspaceId', $1::text), 'k', 1, '{}', 1, 'q', now(), 'scheduled', '{}')`
	a, b := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	for _, id := range []uuid.UUID{a, b} {
		if _, err := owner.Exec(t.Context(), insert, id.String()); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.API, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for name, c := range map[string]struct {
		ctx  context.Context
		want int64
	}{
		"without a scope": {t.Context(), 0}, "in the scope of one": {postgres.Scope(t.Context(), a), 1}, "in the scope of both": {postgres.Scope(t.Context(), a, b), 2},
	} {
		var seen int64
		if err := pool.QueryRow(c.ctx, "SELECT count(*) FROM river.river_job").Scan(&seen); err != nil || seen != c.want {
			t.Errorf("%s: %d jobs seen, %v", name, seen, err)
		}
		tag, err := pool.Exec(c.ctx, "UPDATE river.river_job SET kind = kind")
		if err != nil || tag.RowsAffected() != c.want {
			t.Errorf("%s: %d jobs changed, %v", name, tag.RowsAffected(), err)
		}
	}
	if _, err := pool.Exec(postgres.Scope(t.Context(), a), insert, b.String()); !postgres.Raised(err, "42501") {
		t.Errorf("a job was inserted for another workspace: %v", err)
	}
}

// A database from an earlier version grants more rights on the queue. Migrating revokes these
// rights.
func TestMT02ExcessRightsOnTheQueueAreRevoked(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	owner, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if _, err := owner.Exec(t.Context(), "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA river TO weft_api"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	wider := texts(t, owner, `SELECT c.relname || ' ' || p FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) p
		WHERE c.relnamespace = 'river'::regnamespace AND c.relkind IN ('r', 'p') AND has_table_privilege('weft_api', c.oid, p) ORDER BY 1`)
	if !slices.Equal(wider, []string{"river_job SELECT"}) {
		t.Errorf("requests may %q", wider)
	}
}

// People don't belong to a single workspace. Requests see the members of their workspaces, the
// people who sent invitations to them, and the person who makes the request, but nobody else.
func TestMT02PeopleAreVisibleOnlyToTheirWorkspaces(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	owner, err := postgres.Connect(t.Context(), dsn, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close(context.Background()) }()
	a, b := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	if _, err := owner.Exec(t.Context(), `
		INSERT INTO workspaces (id, name, plan) VALUES ('`+a.String()+`', 'a', 'starter'), ('`+b.String()+`', 'b', 'starter');
		INSERT INTO users (id, email, name, password_hash) SELECT gen_random_uuid(), name || '@example.org', name, '-'
			FROM unnest(ARRAY['ann', 'ben', 'both', 'gone', 'nobody']) name;
		INSERT INTO members (workspace_id, user_id, role) SELECT w.id, u.id, 'viewer' FROM workspaces w JOIN users u
			ON u.name = 'both' OR u.name = CASE w.name WHEN 'a' THEN 'ann' WHEN 'b' THEN 'ben' END;
		INSERT INTO invitations (workspace_id, id, email, role, token_hash, invited_by, expires_at)
			SELECT '`+a.String()+`', gen_random_uuid(), 'x@example.org', 'viewer', sha256('x'), id, now() FROM users WHERE name = 'gone'`); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), dsn, "test", postgres.API, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	engine, err := postgres.Open(t.Context(), dsn, "test", postgres.System, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var nobody uuid.UUID
	if err := owner.QueryRow(t.Context(), "SELECT id::text FROM users WHERE name = 'nobody'").Scan(&nobody); err != nil {
		t.Fatal(err)
	}
	for want, ctx := range map[string]context.Context{
		"nobody": postgres.Person(t.Context(), nobody), "ben both nobody": postgres.Person(postgres.Scope(t.Context(), b), nobody),
		"": t.Context(), "ann both gone": postgres.Scope(t.Context(), a), "ben both": postgres.Scope(t.Context(), b),
		"ann ben both gone": postgres.Scope(t.Context(), a, b),
	} {
		var names string
		if err := pool.QueryRow(ctx, "SELECT COALESCE(string_agg(name, ' ' ORDER BY name), '') FROM users").Scan(&names); err != nil || names != want {
			t.Errorf("%q are seen, %v; want %q", names, err, want)
		}
	}
	if everybody := texts(t, engine, "SELECT name FROM users"); len(everybody) != 5 {
		t.Errorf("the engine sees %q", everybody)
	}
}

// A row of one workspace can't refer to a row of a different workspace, because every foreign
// key to a table of workspaces includes the workspace.
func TestMT04ForeignKeysStayInTheWorkspace(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	keys := `SELECT k.conrelid::regclass || ' ' || k.conname FROM pg_constraint k
		WHERE k.contype = 'f' AND (k.confrelid = 'workspaces'::regclass
		OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = k.confrelid AND a.attname = 'workspace_id'))`
	if found := texts(t, pool, keys); len(found) < 5 {
		t.Errorf("the foreign keys are %q: the query does not find them", found)
	}
	loose := texts(t, pool, keys+` AND NOT EXISTS (
		SELECT FROM unnest(k.conkey, k.confkey) AS pair (mine, theirs)
		JOIN pg_attribute m ON m.attrelid = k.conrelid AND m.attnum = pair.mine
		JOIN pg_attribute o ON o.attrelid = k.confrelid AND o.attnum = pair.theirs
		WHERE m.attname = 'workspace_id' AND o.attname = CASE k.confrelid WHEN 'workspaces'::regclass THEN 'id' ELSE 'workspace_id' END)`)
	if len(loose) > 0 {
		t.Errorf("foreign keys without the workspace: %s", strings.Join(loose, ", "))
	}
	unkeyed := texts(t, pool, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid IN `+ofWorkspaces+` AND c.relname <> 'workspaces' AND NOT EXISTS (
		SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
		WHERE i.indrelid = c.oid AND i.indisprimary AND a.attname = 'workspace_id')`)
	if len(unkeyed) > 0 {
		t.Errorf("tables whose primary key does not start with the workspace: %s", strings.Join(unkeyed, ", "))
	}
}
