//go:build linux

package cli_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// content returns the files of a folder with their content.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A backup that would lack rows fails, and the older backup stays. pg_dump alone reports success for
// each of these databases, with the rows missing.
func TestABackupFailsIfRowsAreHiddenFromItsUser(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	environ := s.fill(s.prepare("weft"))
	dir := filepath.Join(t.TempDir(), "backup")
	run(t, environ, "", "backup", dir).check(t, 0, dir, "")
	before := content(t, dir)
	for _, c := range []struct{ name, hide, show, tables string }{
		{"a restrictive policy", "CREATE POLICY hide ON api_keys AS RESTRICTIVE USING (label IS NULL)", "DROP POLICY hide ON api_keys", "public.api_keys"},
		{"a restrictive policy of the owner's group", "CREATE POLICY hide ON workspaces AS RESTRICTIVE TO weft_system USING (false)", "DROP POLICY hide ON workspaces", "public.workspaces"},
		{"a policy with another condition", "ALTER ROLE weft NOINHERIT; ALTER POLICY of_owner ON component_executions USING (finished_at IS NULL)",
			"ALTER POLICY of_owner ON component_executions USING (true)", "public.component_executions"},
		{"no policy for reading", "DROP POLICY of_owner ON users; CREATE POLICY of_owner ON users FOR INSERT TO weft WITH CHECK (true)",
			"DROP POLICY of_owner ON users; CREATE POLICY of_owner ON users TO weft USING (true)", "public.users"},
		{"no policy", "DROP POLICY of_owner ON members; DROP POLICY of_owner ON hooks", "CREATE POLICY of_owner ON members TO weft USING (true); CREATE POLICY of_owner ON hooks TO weft USING (true)", "public.hooks, public.members"},
	} {
		s.admin("weft", c.hide)
		run(t, environ, "", "backup", dir).check(t, 1, "", `hide rows of these tables from the user "weft", so a backup would lack them: `+c.tables+".")
		if after := content(t, dir); len(after) != len(before) || after["weft.json"] != before["weft.json"] {
			t.Errorf("%s: the older backup changed", c.name)
		}
		s.admin("weft", c.show)
	}
	run(t, environ, "", "backup", dir).check(t, 0, dir, "")
	if after := content(t, dir); after["weft.json"] == before["weft.json"] {
		t.Error("the backup was not replaced")
	}
	for path, text := range content(t, dir) {
		if strings.Contains(text, masterKey) {
			t.Errorf("%s has the master key", path)
		}
	}
	if all, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(all) != 1 {
		t.Errorf("other files next to the backup: %v, %v", all, err)
	}
}

// program writes a script that takes the place of a program of PostgreSQL.
func program(t *testing.T, bin, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

func TestABackupAppearsCompleteOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dsn := s.prepare("weft")
	environ := slices.Clip(append(os.Environ(), "DATABASE_URL="+dsn))
	parent := t.TempDir()
	dir := filepath.Join(parent, "backup")
	run(t, environ, "", "backup", dir).check(t, 1, "", "not a database of Weft")
	run(t, environ, "", "migrate").check(t, 0, "", "")
	bin := t.TempDir()
	program(t, bin, "pg_dump", `for arg; do case $arg in --file=*) echo half > "${arg#--file=}/1.dat";; esac; echo "$arg"; done >&2; exit 1`)
	broken := append(environ, "PG_BIN="+bin)
	got := run(t, broken, "", "backup", dir)
	got.check(t, 1, "", "pg_dump: exit status 1")
	if strings.Contains(got.stderr, "...@") || !strings.Contains(got.stderr, "--dbname=postgres://weft@") {
		t.Errorf("the arguments contain the password: %s", got.stderr)
	}
	run(t, append(environ, "PG_BIN=/nowhere"), "", "backup", dir).check(t, 1, "", "install PostgreSQL's client programs")
	if all, _ := os.ReadDir(parent); len(all) != 0 {
		t.Errorf("a failed backup leaves %v", all)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "/", link} {
		run(t, environ, "", "backup", path).check(t, 0, "", "")
	}
	if all, _ := os.ReadDir(parent); len(all) != 1 || !all[0].IsDir() {
		t.Errorf("three backups leave %v", all)
	}
	before := content(t, dir)
	run(t, broken, "", "backup", dir).check(t, 1, "", "pg_dump: exit status 1")
	if after := content(t, dir); len(after) != len(before) || after["weft.json"] != before["weft.json"] {
		t.Error("a failed backup changed the older one")
	}
	own := filepath.Join(parent, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "letter.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, environ, "", "backup", own).check(t, 1, "", "files that are not a backup of Weft")
	run(t, environ, "", "backup", filepath.Join(own, "letter.txt")).check(t, 1, "", "is not a folder")
}

// Rows that are written or deleted while a backup runs are not in it, or still in it: pg_dump and the
// counts see one snapshot.
func TestABackupIsOneSnapshot(t *testing.T) {
	t.Parallel()
	first, second := newServer(t), newServer(t)
	environ := first.fill(first.prepare("weft"))
	want, dir, bin := first.rows(), filepath.Join(t.TempDir(), "backup"), t.TempDir()
	program(t, bin, "pg_dump", `PG_BIN= && psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1 "$DATABASE_URL" --command \
		"INSERT INTO workspaces SELECT (jsonb_populate_record(w, jsonb_build_object('id', gen_random_uuid(), 'name', 'late'))).* FROM workspaces w; DELETE FROM rate_limits" && exec $(command -v pg_dump) "$@"`)
	run(t, append(environ, "PG_BIN="+bin), "", "backup", dir).check(t, 0, "", "")
	if first.rows() == want {
		t.Fatal("nothing changed during the backup")
	}
	dsn := second.prepare("weft")
	run(t, append(environ, "DATABASE_URL="+dsn), "", "restore", "--database-url="+dsn, dir).check(t, 0, "", "")
	if got := second.rows(); got != want {
		t.Errorf("the restored rows differ:\n%s\nwant:\n%s", got, want)
	}
}

// A restore that fails leaves the database empty.
func TestARestoreIsRefusedBeforeItChangesTheDatabase(t *testing.T) {
	t.Parallel()
	first, second := newServer(t), newServer(t)
	environ := first.fill(first.prepare("weft"))
	parent := t.TempDir()
	dir := filepath.Join(parent, "backup")
	run(t, environ, "", "backup", dir).check(t, 0, "", "")
	want := first.rows()
	changed := func(name string, change func(manifest map[string]any, dir string)) string {
		t.Helper()
		copied := filepath.Join(parent, name)
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		var manifest map[string]any
		text, err := os.ReadFile(filepath.Join(copied, "weft.json"))
		if err != nil || json.Unmarshal(text, &manifest) != nil {
			t.Fatal(err)
		}
		change(manifest, copied)
		text, _ = json.Marshal(manifest)
		if err := os.WriteFile(filepath.Join(copied, "weft.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return copied
	}
	set := func(field string, value any) string {
		return changed(field, func(m map[string]any, _ string) { m[field] = value })
	}
	plain := changed("plain", func(map[string]any, string) {})
	if err := os.Remove(filepath.Join(plain, "weft.json")); err != nil {
		t.Fatal(err)
	}
	cut := changed("cut", func(_ map[string]any, copied string) {
		all, _ := filepath.Glob(copied + "/*.dat.gz")
		largest, size := "", int64(0)
		for _, path := range all {
			if info, err := os.Stat(path); err == nil && info.Size() > size {
				largest, size = path, info.Size()
			}
		}
		if err := os.Truncate(largest, size/2); err != nil {
			t.Fatal(err)
		}
	})
	fewer := changed("fewer", func(m map[string]any, _ string) { m["rows"].(map[string]any)["public.api_keys"] = 2 })

	dsn := second.prepare("weft")
	second.admin("postgres", "CREATE ROLE guest LOGIN SUPERUSER")
	key := "WEFT_MASTER_KEY="
	other := "vXJ4ESYhVhVbDHqKyq7D9pY6r9TGuEfgqgaqmTNHTFo="
	for _, c := range []struct{ name, dsn, key, dir, want string }{
		{"no backup", dsn, masterKey, filepath.Join(parent, "nothing"), "does not exist"},
		{"an ordinary dump", dsn, masterKey, plain, "by pg_restore"},
		{"another format", dsn, masterKey, set("format", 2), "has the format 2"},
		{"a newer schema", dsn, masterKey, set("migration", 900), "use a newer binary"},
		{"a newer queue", dsn, masterKey, set("queue", 900), "use a newer binary"},
		{"a newer PostgreSQL", dsn, masterKey, set("postgresql", 990001), "from PostgreSQL 99"},
		{"another key", dsn, other, dir, "made with the master key"},
		{"no key", dsn, "", dir, "must be set to the master key of the backup"},
		{"not the owner", strings.Replace(dsn, "weft:...@", "guest@", 1), masterKey, dir, `belongs to "weft"`},
		{"a table with fewer rows", dsn, masterKey, fewer, "public.api_keys has 1 rows, and the backup lists 2"},
		{"a damaged file", dsn, masterKey, cut, "pg_restore"},
	} {
		got := run(t, append(os.Environ(), "DATABASE_URL="+c.dsn, key+c.key), "", "restore", c.dir)
		if got.code == 0 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.name, got.code, got.stderr)
		}
		if strings.Contains(got.stderr, masterKey) || strings.Contains(got.stderr, other) {
			t.Errorf("%s: the error has a master key: %s", c.name, got.stderr)
		}
		if n := second.text("SELECT count(*)::text FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'river'))"); n != "0" {
			t.Fatalf("%s: the database has %s relations", c.name, n)
		}
	}
	second.admin("postgres", "ALTER ROLE weft NOCREATEROLE")
	as := append(os.Environ(), "DATABASE_URL="+dsn, key+masterKey)
	run(t, as, "", "restore", dir).check(t, 1, "", "let an administrator run: CREATE ROLE weft_api")
	for one := range strings.SplitSeq(guideOf(t, "database", "sql")[1], ";") {
		second.admin("postgres", one)
	}
	run(t, as, "", "restore", dir).check(t, 0, dir, "in quarantine")
	if got := second.text("SELECT (quarantined_at IS NOT NULL) || ' ' || reason FROM installation"); !strings.HasPrefix(got, "true restored from the backup of 20") {
		t.Errorf("the quarantine before a process has started: %s", got)
	}
	if got := second.rows(); got != want {
		t.Errorf("the restored rows differ:\n%s\nwant:\n%s", got, want)
	}
	run(t, as, "", "restore", dir).check(t, 1, "", "is not empty")
}
