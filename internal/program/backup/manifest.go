package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// manifestFile is written last, so a folder without it is not a backup.
const manifestFile = "weft.json"

// format is the version of the manifest.
const format = 1

// Manifest describes a backup.
type Manifest struct {
	Format     int       `json:"format"`
	CreatedAt  time.Time `json:"createdAt"`
	Weft       string    `json:"weft"`       // version of the program
	PostgreSQL int       `json:"postgresql"` // server_version_num
	Schema     string    `json:"schema"`     // name of the schema of Weft's tables
	Migration  int       `json:"migration"`  // number of the last migration
	Queue      int       `json:"queue"`      // number of the queue's last migration

	// MasterKey is the fingerprint or the name of the master key, and KeyCheck a value that is
	// encrypted with it. They are empty if no process has used the database yet.
	MasterKey string `json:"masterKey,omitempty"`
	KeyCheck  []byte `json:"keyCheck,omitempty"`

	Rows map[string]int64 `json:"rows"` // of each table, partitions included, by its quoted name

	// Owned are the entries of the dump that name the owner. A restore runs the statements instead.
	Owned []Owned `json:"owned"`
}

// Owned is an entry of pg_restore's list, without its numbers and its owner.
type Owned struct {
	Entry     string `json:"entry"`
	Statement string `json:"statement"`
}

// Summary is what people want to know about a backup.
type Summary struct {
	CreatedAt time.Time `json:"createdAt"`
	Weft      string    `json:"weft"`
	Migration int       `json:"migration"`
	MasterKey string    `json:"masterKey,omitempty"`
	Tables    int       `json:"tables"`
	Rows      int64     `json:"rows"`
}

// Summary returns the summary of the backup.
func (m Manifest) Summary() Summary {
	all := Summary{CreatedAt: m.CreatedAt, Weft: m.Weft, Migration: m.Migration, MasterKey: m.MasterKey, Tables: len(m.Rows)}
	for _, n := range m.Rows {
		all.Rows += n
	}
	return all
}

// hidden lists the tables of which row security may hide rows from the user. Counting does not
// reveal that, because a count is subject to the same policies.
const hidden = `SELECT c.oid::regclass::text FROM pg_class c
	WHERE c.relkind IN ('r', 'p') AND row_security_active(c.oid) AND NOT (
		SELECT COALESCE(bool_or(p.polpermissive AND p.everything), false) AND COALESCE(bool_and(p.polpermissive OR p.everything), true)
		FROM (SELECT polpermissive, pg_get_expr(polqual, polrelid) = 'true' AS everything FROM pg_policy
			WHERE polrelid = c.oid AND polcmd IN ('r', '*')
				AND EXISTS (SELECT FROM unnest(polroles) r WHERE r = 0 OR pg_has_role(r, 'USAGE'))) p)
	ORDER BY 1`

// tables lists the tables of which the rows are counted: partitions count with their table, and
// pg_dump leaves out the tables of extensions.
const tables = `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
	ORDER BY 1`

// owned lists the entries that name the owner of Weft's tables: policies, and privileges of tables
// that it creates later. pg_restore would create them for a role that may not exist.
const owned = `WITH owner AS (SELECT relowner AS id FROM pg_class WHERE oid = $1::regclass)
	SELECT format('POLICY %s %s %s', n.nspname, c.relname, p.polname),
		format('CREATE POLICY %I ON %I.%I AS %s FOR %s TO %s', p.polname, n.nspname, c.relname,
			CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
			CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
			(SELECT string_agg(CASE WHEN r = owner.id THEN 'CURRENT_USER' WHEN r = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r)) END, ', ') FROM unnest(p.polroles) r))
			|| COALESCE(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
			|| COALESCE(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')
	FROM owner, pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE owner.id = ANY (p.polroles)
	UNION ALL
	SELECT format('DEFAULT ACL %s DEFAULT PRIVILEGES FOR %s', n.nspname, o.name),
		format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT %s ON %s TO %s', n.nspname, string_agg(a.privilege_type, ', '), o.name,
			CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
	FROM owner, pg_default_acl d JOIN pg_namespace n ON n.oid = d.defaclnamespace
		JOIN (VALUES ('r', 'TABLES'), ('S', 'SEQUENCES'), ('f', 'FUNCTIONS'), ('T', 'TYPES')) o (kind, name) ON o.kind = d.defaclobjtype::text,
		aclexplode(d.defaclacl) a
	WHERE d.defaclrole = owner.id GROUP BY n.nspname, o.name, a.grantee
	ORDER BY 1, 2`

// describe returns the manifest of what the transaction sees.
func describe(ctx context.Context, tx pgx.Tx) (m Manifest, err error) {
	m.Format, m.Rows = format, map[string]int64{}
	// Counting and dumping may take hours.
	_, err = tx.Exec(ctx, "SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) s (name, value)",
		[]string{"statement_timeout", "idle_in_transaction_session_timeout", "enable_seqscan", "row_security"}, []string{"0", "0", "on", "on"})
	if err != nil {
		return m, err
	}
	var check *string
	err = tx.QueryRow(ctx, `SELECT now(), current_setting('server_version_num')::integer, current_schema(), (SELECT max(number) FROM schema_migrations),
		(SELECT max(version) FROM river.river_migration WHERE line = 'main'), (SELECT to_jsonb(i) ->> 'key_check' FROM installation i)`).
		Scan(&m.CreatedAt, &m.PostgreSQL, &m.Schema, &m.Migration, &m.Queue, &check)
	if err != nil {
		return m, fmt.Errorf("this is not a database of Weft: %w", err)
	}
	if check != nil {
		if _, err := fmt.Sscanf(strings.TrimPrefix(*check, `\x`), "%x", &m.KeyCheck); err != nil {
			return m, fmt.Errorf("read the check value of the master key: %w", err)
		}
		m.MasterKey, _ = seal.KeyID(m.KeyCheck)
	}
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = ''"); err != nil { // so that all names are qualified
		return m, err
	}
	if err := checkVisible(ctx, tx); err != nil {
		return m, err
	}
	names, err := collect[string](ctx, tx, pgx.RowTo[string], tables)
	if err != nil {
		return m, err
	}
	for _, name := range names {
		var rows int64
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+name, pgx.QueryExecModeExec).Scan(&rows); err != nil {
			return m, fmt.Errorf("count the rows of %s: %w", name, err)
		}
		m.Rows[name] = rows
	}
	m.Owned, err = collect(ctx, tx, pgx.RowToStructByPos[Owned], owned, pgx.Identifier{m.Schema, "schema_migrations"}.Sanitize())
	return m, err
}

// checkVisible returns an error if row security may hide rows from the user.
func checkVisible(ctx context.Context, tx pgx.Tx) error {
	names, err := collect[string](ctx, tx, pgx.RowTo[string], hidden)
	if err != nil || len(names) == 0 {
		return err
	}
	var user string
	if err := tx.QueryRow(ctx, "SELECT current_user").Scan(&user); err != nil {
		return err
	}
	return fmt.Errorf("row-level security may hide rows of these tables from the user %q, so a backup would lack them: %s. "+
		"Back up as the owner of the database, or as a superuser. If the owner's policies (of_owner) were changed, restore them", user, strings.Join(names, ", "))
}

func collect[T any](ctx context.Context, tx pgx.Tx, row pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, row)
}

// Read returns the manifest of a backup. It returns an error that names pg_restore if dir is an ordinary dump.
func Read(dir string) (m Manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		if _, missing := os.Stat(dir); missing != nil {
			return m, fmt.Errorf("%s does not exist", dir)
		}
		if errors.Is(err, fs.ErrPermission) {
			return m, err
		}
		return m, fmt.Errorf("%s is not a backup of `weft backup`: it has no %s. Restore a dump of pg_dump by pg_restore: see \"A dump without weft backup\" in the guide /docs/backup", dir, manifestFile)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s of the backup is damaged: %w", manifestFile, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has the format %d, and this version of Weft reads the format %d: use the version that made it (%s), or a later one", m.Format, format, m.Weft)
	}
	return m, checkVersions(m)
}

// checkVersions returns an error if this program is too old for the backup.
func checkVersions(m Manifest) error {
	own, queue, err := postgres.SchemaVersion()
	if err != nil {
		return err
	}
	if m.Migration > own || m.Queue > queue {
		return fmt.Errorf("the backup was made by Weft %s and has schema version %d (queue: %d), but this binary supports only version %d (queue: %d): use a newer binary", m.Weft, m.Migration, m.Queue, own, queue)
	}
	return nil
}
