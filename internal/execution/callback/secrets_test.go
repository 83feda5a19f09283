package callback

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/weft-automation/weft/internal/secret/seal"
)

// Secrets that cannot be decrypted with the key that they name are lost. Nothing is sent, and the
// error is shown to the owner and logged for the operator. If the secrets are restored, a replay
// delivers the callback.
func TestMT06SecretsThatCannotBeDecryptedFailTheDelivery(t *testing.T) {
	t.Parallel()
	const canary = "kanarienvogel"
	for name, here := range map[string]bool{"in the finishing process": true, "by the queue": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{})
			r := b.receiver(t, nil)
			secret := canary
			finals := b.accept(t, wish{url: r.url, secret: &secret, headers: map[string]string{"X-Token": canary}},
				wish{url: r.url, secret: &secret}, wish{url: r.url, secret: &secret})
			flipped, moved, sound := finals[0], finals[1], finals[2]
			stored := b.row(t, flipped).Sealed
			broken := slices.Clone(stored)
			broken[len(broken)-1] ^= 1
			b.setSealed(t, flipped, broken)
			own := b.row(t, moved).Sealed
			b.setSealed(t, moved, b.row(t, sound).Sealed)

			for _, f := range []Final{flipped, moved} {
				b.finish(t, here, f)
				if classes := b.await(t, 1); classes[0] != classSecrets {
					t.Errorf("the attempt has the class %v", classes)
				}
				row := b.row(t, f)
				if class, _ := failure(t, row.LastError); class != classSecrets || row.State != "EXHAUSTED" || row.AttemptCount != 1 || row.DueAt != nil {
					t.Errorf("it is %s after %d attempts, due %v, with %s", row.State, row.AttemptCount, row.DueAt, row.LastError)
				}
				page, err := b.service.Attempts(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, 10, "")
				if err != nil || len(page.Data) != 1 || page.Data[0].Delivered || !strings.Contains(string(page.Data[0].Error), "The stored secrets cannot be decrypted") {
					t.Errorf("its owner reads %+v, %v", page, err)
				}
				if log := b.log.String(); !strings.Contains(log, `"level":"ERROR","msg":"the stored secrets of a callback cannot be decrypted"`) || !strings.Contains(log, f.ID.String()) {
					t.Errorf("the operator reads %s", log)
				}
			}
			if n := b.jobsLeft(t); n != 0 || len(r.all()) != 0 {
				t.Errorf("%d jobs are left, %d requests were sent", n, len(r.all()))
			}
			b.setSealed(t, flipped, stored)
			b.setSealed(t, moved, own)
			for _, f := range []Final{flipped, moved} {
				if err := b.service.Replay(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, false); err != nil {
					t.Fatal(err)
				}
				if classes := b.await(t, 1); classes[0] != "" || b.row(t, f).State != "DELIVERED" {
					t.Errorf("the replay ended as %v", classes)
				}
			}
			if strings.Contains(b.log.String(), canary) {
				t.Errorf("the log contains a secret: %s", b.log)
			}
		})
	}
}

// If this process lacks the key, a different process may deliver the callback, or this process may
// deliver it later. Such a fetch does not count as an attempt until processes have lacked the key
// for longer than any rotation takes. Time during which the delivery was merely due, or no process
// was running, does not count.
func TestMT06SecretsUnderAMissingKeyWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true})
	r := b.receiver(t, nil)
	others, err := seal.NewKeyring(seal.Key{ID: "others", Secret: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	here := b.keyring
	b.keyring = others
	secret := "s"
	finals := b.accept(t, wish{url: r.url, secret: &secret}, wish{url: r.url, secret: &secret})
	b.finish(t, false, finals...)
	const twoDays = 48 * time.Hour
	turn := func(f Final) time.Duration {
		t.Helper()
		again, err := b.deliverer.work(t.Context(), &river.Job[Args]{
			JobRow: &rivertype.JobRow{ID: *b.row(t, f).JobID, CreatedAt: time.Now().Add(-twoDays)},
			Args:   Args{WorkspaceID: f.WorkspaceID, ExecutionID: f.ID},
		})
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	waits := func(f Final, when string, pause time.Duration) {
		t.Helper()
		again, row := turn(f), b.row(t, f)
		if again != pause || row.State != stateQueued || row.AttemptCount != 0 || row.LastError != nil || row.UnopenedSince == nil {
			t.Errorf("%s: retried in %v, state %s after %d attempts with %s, unopened since %v",
				when, again, row.State, row.AttemptCount, row.LastError, row.UnopenedSince)
		}
	}
	delivered, ended := finals[0], finals[1]
	b.setSince(t, "due_at", ended, twoDays)
	for _, f := range finals {
		waits(f, "two days overdue", minKeyPause)
		first := *b.row(t, f).UnopenedSince
		waits(f, "at the second check", minKeyPause)
		if again := *b.row(t, f).UnopenedSince; !again.Equal(first) {
			t.Errorf("it is unopened since %v, then since %v", first, again)
		}
		b.setSince(t, "unopened_since", f, keyPatience-time.Minute)
		b.deliverer.keyless.since = time.Now().Add(-keyGrace)
		waits(f, "a minute before a day is over", maxKeyPause)
	}
	if n := strings.Count(b.log.String(), "a master key that this process does not have"); n != 1 || strings.Contains(b.log.String(), "ERROR") {
		t.Errorf("it is logged %d times: %s", n, b.log)
	}

	b.setSince(t, "unopened_since", ended, twoDays)
	b.deliverer.keyless = keyless{}
	waits(ended, "when the process has just started", maxKeyPause)
	b.deliverer.keyless.since, b.deliverer.keyless.last = time.Now().Add(-twoDays), time.Now().Add(-keyGrace)
	waits(ended, "when nothing has come for an hour", maxKeyPause)

	b.setSince(t, "unopened_since", delivered, twoDays)
	b.deliverer.Keyring = others
	if again, row := turn(delivered), b.row(t, delivered); again != 0 || row.State != "DELIVERED" || row.UnopenedSince != nil {
		t.Errorf("a process with the key did not deliver: again in %v, %+v", again, row)
	}
	b.deliverer.Keyring = here
	b.setSince(t, "unopened_since", ended, keyPatience)
	b.deliverer.keyless.since = time.Now().Add(-keyGrace)
	if again, row := turn(ended), b.row(t, ended); again != 0 || row.State != "EXHAUSTED" || row.UnopenedSince != nil || len(r.all()) != 1 {
		t.Errorf("after a day without the key: again in %v, %+v", again, row)
	}
	if classes := b.await(t, 2); !slices.Equal(classes, []string{"", classSecrets}) {
		t.Errorf("the attempts are %v", classes)
	}
}

// setSince sets a time column of a callback to a time in the past.
func (b *bench) setSince(t *testing.T, column string, f Final, ago time.Duration) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), "UPDATE callbacks SET "+column+" = now() - $1::interval WHERE execution_id = $2", ago, f.ID); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) setSealed(t *testing.T, f Final, sealed []byte) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), "UPDATE callbacks SET sealed = $1 WHERE execution_id = $2", sealed, f.ID); err != nil {
		t.Fatal(err)
	}
}
