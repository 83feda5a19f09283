//go:build linux

package devdb

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRunningFindsTheServerOfAnotherProcess(t *testing.T) {
	dir := filepath.Join(folderFor(t), "postgres")
	if dsn, ok := Running(dir, "postgres"); ok {
		t.Errorf("before the start: %s", dsn)
	}
	server := start(t, Config{Dir: dir, Volatile: true})
	dsn, ok := Running(dir, "postgres")
	if !ok || dsn != server.DSN("postgres") {
		t.Errorf("while it runs: %q, %v; want %q", dsn, ok, server.DSN("postgres"))
	}
	stop(t, server)
	if dsn, ok := Running(dir, "postgres"); ok {
		t.Errorf("after the stop: %s", dsn)
	}
	stale := "4194305\n/data\n1\n5432\n/run\n\n\n"
	if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if dsn, ok := Running(dir, "postgres"); ok {
		t.Errorf("after a crash: %s", dsn)
	}
}

func TestInstalledReturnsWhatStartWouldUse(t *testing.T) {
	dir, version, ok := Installed(t.Context())
	if !ok {
		return // the machine has only the edition that Start would download
	}
	if version == "" {
		t.Error("no version")
	}
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
		t.Error(err)
	}
}
