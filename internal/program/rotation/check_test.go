package rotation_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// check returns the result of Check and the log of a process that starts with these keys.
func check(t *testing.T, dsn string, keys *seal.Keyring) (error, string) {
	t.Helper()
	var log bytes.Buffer
	holder, err := rotation.Hold(t.Context(), dsn, keys, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	holder.Run(ended)
	return holder.Check(), log.String()
}

func TestAProcessWithAnotherMasterKeyIsNotReady(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := open(t, dsn)
	if _, err := pool.Exec(t.Context(), "INSERT INTO installation (place, timeline) VALUES ('here', 1)"); err != nil {
		t.Fatal(err)
	}
	old, fresh := key("2025", 1), key("2026", 2)
	for i, c := range []struct {
		ring   *seal.Keyring
		right  bool
		rotate bool
	}{
		{ring(t, old), true, false}, // the first process makes its key the installation's
		{ring(t, fresh), false, false},
		{ring(t, old, fresh), true, false},
		{ring(t, fresh, old), true, true},
		{ring(t, fresh), true, false},
		{ring(t, old), false, false},
		{ring(t, key("2026", 3)), false, false}, // another key with the same ID
	} {
		err, log := check(t, dsn, c.ring)
		if (err == nil) != c.right || err != nil && fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("process %d: %v", i, err)
		}
		if said := strings.Contains(log, "wrong master key for this installation"); said == c.right {
			t.Errorf("process %d logs %s", i, log)
		}
		if c.rotate {
			if _, err := rotation.Run(t.Context(), pool, c.ring, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := (*rotation.Holder)(nil).Check(); err != nil {
		t.Error(err)
	}
}

// An installation of an older version has no check value. A process that lacks the keys of stored
// values must not write a check value under its own key.
func TestWrongMasterKeyDoesNotBecomeTheInstallations(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := open(t, dsn)
	if _, err := pool.Exec(t.Context(), "INSERT INTO installation (place, timeline) VALUES ('here', 1)"); err != nil {
		t.Fatal(err)
	}
	old, fresh := key("2025", 1), key("2026", 2)
	fill(t, pool, ring(t, old), 2)
	check(t, dsn, ring(t, fresh))
	if err, _ := check(t, dsn, ring(t, old)); err != nil {
		t.Errorf("with the correct key: %v", err)
	}
	if err, _ := check(t, dsn, ring(t, fresh)); err == nil {
		t.Error("a wrong key was accepted")
	}
}
