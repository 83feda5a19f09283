package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/secret/seal"
)

func TestMasterKeyOfAFolderIsCreatedOnceAndNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	rings := make([]*seal.Keyring, 8)
	var starts sync.WaitGroup
	for i := range rings {
		starts.Go(func() {
			ring, err := keyringOfFolder(dir)
			if err != nil {
				t.Error(err)
			}
			rings[i] = ring
		})
	}
	starts.Wait()
	sealed, err := rings[0].Seal([]byte("x"), seal.AAD{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ring := range rings {
		if _, err := ring.Open(sealed, seal.AAD{Table: "t"}); err != nil {
			t.Errorf("two concurrent starts have different keys: %v", err)
		}
	}
	path := filepath.Join(dir, masterKeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("unexpected file %v (%v)", info, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyringOfFolder(dir); err == nil {
		t.Error("a key that others can read was accepted")
	}
	if err := os.Mkdir(filepath.Join(dir, "postgres"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := keyringOfFolder(dir); err == nil {
		t.Error("a lost key was replaced although its database exists")
	}
}

func TestMT07KeyOfAFolderIsRotatedAndTheOldOneArchived(t *testing.T) {
	dir := t.TempDir()
	before, err := keyringOfFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := before.Seal([]byte("x"), seal.AAD{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	file := KeyFileOf(dir)
	renewed, err := file.AddKey()
	if err != nil || renewed.Fingerprints()[0] == before.Fingerprints()[0] || !renewed.Holds(sealed) {
		t.Fatalf("unexpected keys %v after AddKey: %v", renewed.Fingerprints(), err)
	}
	// A rotation that was interrupted continues with the key that it created.
	again, err := file.AddKey()
	if err != nil || again.Fingerprints()[0] != renewed.Fingerprints()[0] || len(again.Fingerprints()) != 2 {
		t.Fatalf("unexpected keys %v after a second AddKey: %v", again.Fingerprints(), err)
	}
	if started, err := keyringOfFolder(dir); err != nil || !started.Holds(sealed) {
		t.Fatalf("a start during the rotation: %v", err)
	}
	aside, err := file.ArchiveOldKeys()
	if err != nil || len(aside) != 1 {
		t.Fatal(aside, err)
	}
	if kept, err := (KeyFile{aside[0]}).Keyring(); err != nil || !kept.Holds(sealed) || len(kept.Fingerprints()) != 1 {
		t.Errorf("the archived key differs: %v", err)
	}
	after, err := keyringOfFolder(dir)
	if err != nil || after.Holds(sealed) || after.Fingerprints()[0] != renewed.Fingerprints()[0] {
		t.Fatalf("unexpected keys %v after the rotation: %v", after.Fingerprints(), err)
	}
	if info, err := os.Stat(filepath.Join(dir, masterKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("unexpected file %v (%v)", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".master-*")); len(left) > 0 {
		t.Errorf("unexpected files left: %v", left)
	}
}

// A process that lacks the key of sealed values logs a warning, and works otherwise.
func TestStartWarnsOfValuesThatItCannotDecrypt(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	_, err := w.app.variables.Set(postgres.Scope(t.Context(), w.id), environment.SetParams{WorkspaceID: w.id, Name: "SEALED", Value: "here"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, log := w.app.cfg, &logBook{}
	if cfg.Keyring, err = keyring("qFVXAOMxpTgbKrnUEDHQd0sJaltyyGTuDF2vW5y2x9M=", ""); err != nil {
		t.Fatal(err)
	}
	other, err := Start(t.Context(), cfg, telemetry.NewLogger(log, slog.LevelWarn))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop(context.Background())
	late, tick := waittest.Context(t).Done(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(log.String(), "this process lacks the master key of some stored values") {
		select {
		case <-late:
			t.Fatalf("the warning is missing in the log:\n%s", log)
		case <-tick.C:
		}
	}
}
