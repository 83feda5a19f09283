package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/postgres/pgtest"
)

// texts are the rows of a query of one column.
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

// ofWorkspaces are the tables whose rows are a workspace's.
const ofWorkspaces = `(SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
	AND (c.relname = 'workspaces' OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped)))`

// Each query finds what must not be: the second wall between workspaces has no
// hole. A table that is made later is looked at too.
func TestMT02TheSecondWallHasNoHole(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for name, sql := range map[string]string{
		"roles of processes that may more than they should": `SELECT rolname::text FROM pg_roles WHERE rolname IN ('weft_api', 'weft_system')
			AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication)`,
		"roles that are missing": `SELECT r FROM unnest(ARRAY['weft_api', 'weft_system']) r WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r)`,
		"roles of processes that are another role too": `SELECT m.member::regrole::text FROM pg_auth_members m
			WHERE m.member IN ('weft_api'::regrole, 'weft_system'::regrole)`,
		"what roles of processes own": `SELECT oid::regclass::text FROM pg_class WHERE relowner IN ('weft_api'::regrole, 'weft_system'::regrole)
			UNION ALL SELECT oid::regprocedure::text FROM pg_proc WHERE proowner IN ('weft_api'::regrole, 'weft_system'::regrole)
			UNION ALL SELECT nspname::text FROM pg_namespace WHERE nspowner IN ('weft_api'::regrole, 'weft_system'::regrole)`,
		"schemas in which processes may make things": `SELECT n.nspname || ' ' || r FROM pg_namespace n, unnest(ARRAY['weft_api', 'weft_system']) r
			WHERE n.nspname IN ('public', 'river') AND has_schema_privilege(r, n.oid, 'CREATE')`,
		"tables of workspaces without forced row security": `SELECT c.oid::regclass::text FROM pg_class c
			WHERE c.oid IN ` + ofWorkspaces + ` AND NOT (c.relrowsecurity AND c.relforcerowsecurity)`,
		"tables of workspaces without the three policies, or with more": `SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid IN ` + ofWorkspaces + `
			AND (SELECT array_agg(p.polname::text || ' ' || p.polroles::regrole[]::text ORDER BY p.polname) FROM pg_policy p WHERE p.polrelid = c.oid)
			IS DISTINCT FROM ARRAY['of_owner {' || c.relowner::regrole || '}', 'of_system {weft_system}', 'of_workspace {weft_api}']`,
		"policies that show requests more than their workspaces": `SELECT p.polrelid::regclass::text FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
			WHERE p.polname = 'of_workspace' AND (p.polcmd <> '*' OR NOT p.polpermissive OR p.polwithcheck IS NOT NULL
			OR pg_get_expr(p.polqual, p.polrelid) <> format('(%s = ANY (( SELECT current_workspaces() AS current_workspaces)::uuid[]))',
				CASE c.relname WHEN 'workspaces' THEN 'id' ELSE 'workspace_id' END))`,
		"partitions on which something is granted": `SELECT c.oid::regclass::text FROM pg_class c, aclexplode(c.relacl) a
			WHERE c.relispartition AND a.grantee <> c.relowner`,
		"tables on which something is granted to everybody": `SELECT c.oid::regclass::text FROM pg_class c, aclexplode(c.relacl) a
			WHERE c.relnamespace IN ('public'::regnamespace, 'river'::regnamespace) AND a.grantee = 0`,
		"what requests may take away for good": `SELECT c.oid::regclass::text FROM pg_class c
			WHERE c.oid IN ` + ofWorkspaces + ` AND c.relname NOT IN ('members', 'open_calls') AND has_table_privilege('weft_api', c.oid, 'DELETE, TRUNCATE')`,
		"functions with the owner's rights that anybody may call, or whose search path the caller sets": `SELECT p.oid::regprocedure::text FROM pg_proc p
			WHERE p.prosecdef AND p.pronamespace = 'public'::regnamespace
			AND (has_function_privilege('weft_api', p.oid, 'EXECUTE') OR NOT COALESCE(p.proconfig::text, '') LIKE '%search_path=%')`,
	} {
		if found := texts(t, pool, sql); len(found) > 0 {
			t.Errorf("%s: %s", name, strings.Join(found, ", "))
		}
	}
}

// What is not bound to a workspace has no second wall: it is a short list.
func TestMT02WhatHasNoWallIsListed(t *testing.T) {
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
		"tables of no workspace that requests may read": {
			`SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
			AND c.oid NOT IN ` + ofWorkspaces + ` AND NOT c.relispartition AND has_table_privilege('weft_api', c.oid, 'SELECT') ORDER BY 1`,
			[]string{"schema_migrations", "workers"},
		},
		"columns of other tables that requests may read": {
			`SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped
			AND NOT has_table_privilege('weft_api', c.oid, 'SELECT') AND has_column_privilege('weft_api', c.oid, a.attnum, 'SELECT') ORDER BY 1`,
			[]string{"users.email", "users.id", "users.name"},
		},
	} {
		if found := texts(t, pool, check.sql); !slices.Equal(found, check.want) {
			t.Errorf("%s: %q, want %q", name, found, check.want)
		}
	}
}

// A row of one workspace cannot refer to a row of another: what refers to a table
// of workspaces names the workspace too.
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
		t.Errorf("tables whose primary key does not begin with the workspace: %s", strings.Join(unkeyed, ", "))
	}
}
