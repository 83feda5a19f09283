//go:build linux

package cli_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/devdb"
)

// server is a separate PostgreSQL, on which no role of Weft exists yet.
type server struct {
	*devdb.Server
	t *testing.T
}

func newServer(t *testing.T) server {
	t.Helper()
	one, err := devdb.Start(t.Context(), devdb.Config{Dir: filepath.Join(t.TempDir(), "postgres"), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := waittest.CleanupContext(t)
		defer cancel()
		if err := one.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server{one, t}
}

// admin runs statements as the superuser, in a database.
func (s server) admin(database string, statements ...string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.DSN(database))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(s.t.Context()) }()
	for _, one := range statements {
		if _, err := conn.Exec(s.t.Context(), one); err != nil {
			s.t.Fatalf("%s: %v", one, err)
		}
	}
}

// text returns a value as the superuser, in the database weft.
func (s server) text(sql string) (got string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.DSN("weft"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(s.t.Context()) }()
	if err := conn.QueryRow(s.t.Context(), sql).Scan(&got); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// guideOf returns the code blocks of a guide of one language.
func guideOf(t *testing.T, name, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../web/portal/guides/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocksOf(string(text)) {
		if b.language == language {
			all = append(all, b.code)
		}
	}
	return all
}

// prepare creates the user and the empty database by the guide to PostgreSQL, under the given name of
// the user. It returns the address of the database.
func (s server) prepare(owner string) string {
	s.t.Helper()
	for one := range strings.SplitSeq(guideOf(s.t, "database", "sql")[0], ";") {
		one = strings.ReplaceAll(one, "ROLE weft", "ROLE "+owner)
		s.admin("postgres", strings.ReplaceAll(one, "OWNER weft", "OWNER "+owner))
	}
	address, err := url.Parse(s.DSN("weft"))
	if err != nil {
		s.t.Fatal(err)
	}
	query := address.Query()
	query.Del("user")
	address.User, address.RawQuery = url.UserPassword(owner, "..."), query.Encode()
	return address.String()
}

// rows is a digest of each table's rows, apart from the installation's.
func (s server) rows() string {
	s.t.Helper()
	return s.text(`SELECT string_agg(name || ' ' || (xpath('/row/d/text()', query_to_xml(format(
			'SELECT count(*) || '' '' || COALESCE(md5(string_agg(t::text, '';'' ORDER BY t::text)), '''') AS d FROM %s t', name), false, true, '')))[1], E'\n' ORDER BY name)
		FROM (SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname IN ('public', 'river') AND c.relname <> 'installation') t`)
}

// rights are the privileges on tables, columns, functions and schemas, and those of tables that the owner
// creates later. The owner is written as weft.
func (s server) rights(owner string) string {
	s.t.Helper()
	return s.text(`SELECT string_agg(name || ' ' || replace(acl::text, '` + owner + `', 'weft'), E'\n' ORDER BY name, acl::text) FROM (
		SELECT oid::regclass::text AS name, relacl AS acl FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'river'::regnamespace)
		UNION ALL SELECT attrelid::regclass || '.' || attname, attacl FROM pg_attribute WHERE attrelid >= 16384
		UNION ALL SELECT oid::regprocedure::text, proacl FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		UNION ALL SELECT nspname, nspacl FROM pg_namespace WHERE nspname IN ('public', 'river')
		UNION ALL SELECT defaclnamespace::regnamespace || ' ' || defaclobjtype::text, defaclacl FROM pg_default_acl) t WHERE acl IS NOT NULL`)
}

// fill migrates a database and lets it serve a call, so that it has a key, an execution and the check
// value of the master key.
func (s server) fill(dsn string) (environ []string) {
	s.t.Helper()
	environ = append(os.Environ(), "DATABASE_URL="+dsn, "WEFT_MASTER_KEY="+masterKey)
	run(s.t, environ, "", "migrate").check(s.t, 0, "", "")
	port, credentials := freePort(s.t), filepath.Join(s.t.TempDir(), "credentials.json")
	run(s.t, environ, "", "keys", "create", "--new-workspace", "--workspace=shop", "--plan=growth", "--base-url=http://127.0.0.1:"+port, "--out="+credentials).check(s.t, 0, "", "Key ")
	_, stop := background(s.t, environ, "serve", "--addr=127.0.0.1:"+port, "--ops-addr=127.0.0.1:0")
	waittest.Until(s.t, "the first process has written the check value", func() bool {
		return s.text("SELECT (count(*) FILTER (WHERE key_check IS NOT NULL))::text FROM installation") == "1"
	})
	waittest.Until(s.t, "a call is answered", func() bool {
		return run(s.t, environ, "", "call", "RANDOM_UUID", "--credentials="+credentials).code == 0
	})
	if got := stop(); got.code != 0 {
		s.t.Fatalf("weft serve: %+v", got)
	}
	return slices.Clip(environ)
}

// The commands by which a deployment is set up run as the user that the guide to PostgreSQL creates.
// Only the addresses are others.
func TestTheCommandsOfTheGuideToDeploymentRun(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dsn, port := s.prepare("weft"), freePort(t)
	w := newWorkshop(t, nil)
	w.environ = append(w.environ, "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_ADMIN_PASSWORD=correct horse battery staple", "PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
	script := strings.NewReplacer("postgres://weft:PASSWORD@db/weft", "'"+dsn+"'", "0.0.0.0:8080", "127.0.0.1:"+port, "https://weft.example", "http://127.0.0.1:"+port).
		Replace(guideOf(t, "deployment", "sh")[0])
	w.run(t, "trap 'kill $(jobs -p); wait' EXIT\n"+script+`
		until (: > /dev/tcp/127.0.0.1/`+port+`) 2>/dev/null; do sleep 0.1; done
		weft call RANDOM_UUID --credentials credentials.json`)
	if got := s.text("SELECT count(*)::text FROM component_executions WHERE status = 'COMPLETED'"); got != "1" {
		t.Errorf("%s calls completed, want 1", got)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, sql := range guideOf(t, "deployment", "sql") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// The commands of the guides run as written, as the user that the guide to PostgreSQL creates. Only
// the folders are others.
func TestBackupAndRestoreByTheCommandsOfTheGuide(t *testing.T) {
	t.Parallel()
	first := newServer(t)
	source := first.prepare("weft")
	environ := first.fill(source)
	want := first.rows()
	blocks := guideOf(t, "backup", "sh")
	if len(blocks) != 4 {
		t.Fatalf("the guide has %d blocks of commands, want 4", len(blocks))
	}
	w := newWorkshop(t, environ)
	for _, dir := range []string{"backup", "safe/place", "etc/weft"} {
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "etc/weft/master-key.env"), []byte("WEFT_MASTER_KEY="+masterKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(dsn, script string) {
		t.Helper()
		w.environ = append(w.environ, "DATABASE_URL="+dsn, "WEFT_MASTER_KEY=")
		script = strings.NewReplacer("/backup/", w.dir+"/backup/", "/safe/place/", w.dir+"/safe/place/", "/etc/weft/", w.dir+"/etc/weft/").Replace(script)
		w.run(t, "PATH="+filepath.Join(w.dir, "bin")+":$PATH\n"+script)
	}
	as(source, blocks[0])
	as(source, blocks[2])
	rights := first.rights("weft")
	restored := func(t *testing.T, s server, owner, dsn string) {
		t.Helper()
		if got := s.rights(owner); got != rights {
			t.Errorf("the restored rights differ:\n%s\nwant:\n%s", got, rights)
		}
		if got := s.rows(); got != want {
			t.Errorf("the restored rows differ:\n%s\nwant:\n%s", got, want)
		}
		if got := s.text("SELECT (quarantined_at IS NOT NULL)::text FROM installation"); got != "true" {
			t.Error("the restored database is not in quarantine")
		}
		run(t, append(environ, "DATABASE_URL="+dsn), "", "audit", "--database-url="+dsn).check(t, 0, "", "1 workspace: ")
	}
	for _, owner := range []string{"weft", "another"} {
		t.Run("restored by "+owner, func(t *testing.T) {
			second := newServer(t)
			second.t = t
			dsn := second.prepare(owner)
			as(dsn, blocks[1])
			restored(t, second, owner, dsn)
			if got := second.text("SELECT count(*)::text FROM pg_policies WHERE '" + owner + "' = ANY (roles)"); got == "0" || got != first.text("SELECT count(*)::text FROM pg_policies WHERE 'weft' = ANY (roles)") {
				t.Errorf("%s policies name the owner", got)
			}
		})
	}
	t.Run("a dump of pg_dump", func(t *testing.T) {
		second := newServer(t)
		second.t = t
		dsn := second.prepare("weft")
		for one := range strings.SplitSeq(guideOf(t, "backup", "sql")[0], ";") {
			second.admin("weft", one)
		}
		as(dsn, blocks[3])
		restored(t, second, "weft", dsn)
		run(t, append(environ, "DATABASE_URL="+dsn), "", "restore", "--database-url="+dsn, filepath.Join(w.dir, "backup/weft.dump")).check(t, 1, "", "pg_restore")
	})
}
