package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Restore loads the backup in dir into the empty database, whose owner the user must be, and puts
// the database in quarantine. The keyring must have the master key of the backup.
func Restore(ctx context.Context, into Database, dir string, made Manifest, ring *seal.Keyring) error {
	if !rotation.Opens(ring, made.KeyCheck) {
		return fmt.Errorf("the backup was made with the master key %s, and WEFT_MASTER_KEY and WEFT_MASTER_KEYS_OLD are other keys: set the key of the backup", made.MasterKey)
	}
	server, err := checkTarget(ctx, into, made)
	if err != nil {
		return err
	}
	list, err := entries(ctx, into, dir, made)
	if err != nil {
		return err
	}
	if err := load(ctx, into, dir, list, made, server); err != nil {
		return fmt.Errorf("nothing was restored, and the database is still empty: %w", err)
	}
	return nil
}

// checkTarget returns the version of the server, or an error unless the database is empty and belongs
// to its user.
func checkTarget(ctx context.Context, into Database, made Manifest) (server int, err error) {
	session, err := postgres.Connect(ctx, into.DSN, "restore")
	if err != nil {
		return 0, err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	var user, owner, database string
	var found *string
	err = session.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_user, pg_get_userbyid(datdba), datname,
		(SELECT min(format('%I.%I', n.nspname, c.relname)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'))
		FROM pg_database WHERE datname = current_database()`).Scan(&server, &user, &owner, &database, &found)
	switch {
	case err != nil:
		return 0, fmt.Errorf("check the database: %w", err)
	case found != nil:
		return 0, fmt.Errorf("the database %q is not empty: it has %s. Restore into a new database: createdb --owner %s NAME", database, *found, user)
	case user != owner:
		return 0, fmt.Errorf("the database %q belongs to %q, and DATABASE_URL connects as %q: connect as its owner", database, owner, user)
	case server/10000 < made.PostgreSQL/10000:
		return 0, fmt.Errorf("the backup is from PostgreSQL %d, and this server has PostgreSQL %d: restore it on a server of the same version or a later one", made.PostgreSQL/10000, server/10000)
	}
	return server, nil
}

// entries returns the list of what pg_restore restores: everything but the entries that name the owner.
func entries(ctx context.Context, into Database, dir string, made Manifest) (wanted string, err error) {
	cmd, err := into.find(ctx, "pg_restore", "--list", dir)
	if err != nil {
		return "", err
	}
	all, err := cmd.Output()
	if err := finish("pg_restore", cmd, err); err != nil {
		return "", err
	}
	for line := range strings.Lines(string(all)) {
		// A line is "4321; 3256 16400 POLICY public api_keys of_owner weft".
		words := strings.SplitN(line, " ", 4)
		if len(words) < 4 || !slices.ContainsFunc(made.Owned, func(o Owned) bool { return strings.HasPrefix(words[3], o.Entry+" ") }) {
			wanted += line
		}
	}
	return wanted, nil
}

// load sends the script of pg_restore to psql, in one transaction with what a dump lacks. pg_restore
// itself could run neither more statements in its transaction, nor the script of a later version on
// an older server.
func load(ctx context.Context, into Database, dir, list string, made Manifest, server int) error {
	psql, err := into.program(ctx, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-")
	if err != nil {
		return err
	}
	script, err := into.find(ctx, "pg_restore", "--no-owner", "--use-list=/dev/stdin", "--file=-", dir)
	if err != nil {
		return err
	}
	script.Stdin = strings.NewReader(list) // no file: the container's file system is read-only
	body, err := script.StdoutPipe()
	if err != nil {
		return err
	}
	to, err := psql.StdinPipe()
	if err != nil {
		return err
	}
	if err := errors.Join(psql.Start(), script.Start()); err != nil {
		_ = to.Close()
		return err
	}
	_, err = io.WriteString(to, "BEGIN;\n"+makeRoles+";\n")
	if err == nil {
		err = copyScript(to, body, server)
	}
	_, _ = io.Copy(io.Discard, body)
	failed := finish("pg_restore", script, script.Wait())
	if err == nil && failed == nil { // without COMMIT, the end of the script rolls everything back
		_, err = io.WriteString(to, tail(made)+"COMMIT;\n")
	}
	_ = to.Close()
	return errors.Join(finish("psql", psql, psql.Wait()), failed, ignoreBroken(err, failed))
}

// ignoreBroken returns err unless the reason is that psql ended, which its own error explains.
func ignoreBroken(err, other error) error {
	if other != nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// copyScript copies the script of pg_restore. It leaves out a setting that servers before version 17
// do not know, and which later versions of pg_restore set to its default.
func copyScript(to io.Writer, from io.Reader, server int) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if server >= 170000 || !strings.HasPrefix(line, "SET transaction_timeout") {
			if _, err := io.WriteString(to, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		settings := strings.TrimSpace(line) == "" || strings.HasPrefix(line, "--") || strings.HasPrefix(line, `\`) ||
			strings.HasPrefix(line, "SET ") || strings.HasPrefix(line, "SELECT pg_catalog.set_config")
		if !settings { // rows of tables follow, which may contain any line
			_, err := io.Copy(to, lines)
			return err
		}
	}
}

// makeRoles creates the roles of Weft's processes and makes the user a member, as migration 7 does.
// The privileges and policies of a dump name the roles, and a dump does not contain roles.
const makeRoles = `DO $weft$
DECLARE
	r text;
BEGIN
	FOREACH r IN ARRAY ARRAY['weft_api', 'weft_system'] LOOP
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
			EXECUTE format('CREATE ROLE %I NOLOGIN', r);
		END IF;
		IF current_setting('server_version_num')::integer >= 160000 THEN
			IF NOT pg_has_role(current_user, r, 'SET') OR NOT pg_has_role(current_user, r, 'USAGE') THEN
				EXECUTE format('GRANT %I TO %I WITH SET TRUE, INHERIT TRUE', r, current_user);
			END IF;
		ELSIF NOT pg_has_role(current_user, r, 'MEMBER') THEN
			EXECUTE format('GRANT %I TO %I', r, current_user);
		END IF;
	END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
	RAISE EXCEPTION '% may not create the roles that Weft works under; let an administrator run: CREATE ROLE weft_api; CREATE ROLE weft_system; GRANT weft_api, weft_system TO %',
		quote_ident(current_user), quote_ident(current_user) USING ERRCODE = 'insufficient_privilege';
END
$weft$`

// tail returns the statements that follow the dump: the entries that name the owner, the comparison
// of the rows, and the quarantine.
func tail(made Manifest) string {
	var script strings.Builder
	script.WriteString("\nSET search_path = '';\nSET row_security = on;\n")
	for _, one := range made.Owned {
		script.WriteString(one.Statement + ";\n")
	}
	script.WriteString("DO $weft$\nDECLARE\n\tn bigint;\nBEGIN\n")
	for _, table := range slices.Sorted(maps.Keys(made.Rows)) {
		fmt.Fprintf(&script, "\tSELECT count(*) INTO n FROM %s;\n\tIF n <> %d THEN RAISE EXCEPTION 'the table %s has %% rows, and the backup lists %d', n; END IF;\n",
			table, made.Rows[table], strings.ReplaceAll(table, "'", "''"), made.Rows[table])
	}
	reason := "restored from the backup of " + made.CreatedAt.UTC().Format(time.DateTime) + " UTC"
	fmt.Fprintf(&script, `END
$weft$;
SET search_path = %s;
INSERT INTO installation (place, timeline, quarantined_at, reason) VALUES (place_of_database(), timeline_of_database(), now(), '%s')
	ON CONFLICT (one) DO UPDATE SET quarantined_at = excluded.quarantined_at, reason = excluded.reason;
`, pgx.Identifier{made.Schema}.Sanitize(), reason)
	return script.String()
}
