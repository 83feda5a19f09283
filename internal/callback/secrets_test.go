package callback

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/weft-automation/weft/internal/seal"
)

// Secrets that do not open under the key that they name never will: nothing is
// sent, and the owner and the operator are told. What restores them restores the
// delivery, by a replay.
func TestMT06SecretsThatDoNotOpenEndTheDelivery(t *testing.T) {
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
					t.Errorf("the attempt is counted as %v", classes)
				}
				row := b.row(t, f)
				if class, _ := failure(t, row.LastError); class != classSecrets || row.State != "EXHAUSTED" || row.AttemptCount != 1 || row.DueAt != nil {
					t.Errorf("it is %s after %d attempts, due %v, with %s", row.State, row.AttemptCount, row.DueAt, row.LastError)
				}
				page, err := b.service.Attempts(t.Context(), f.WorkspaceID, f.ID, 10, "")
				if err != nil || len(page.Data) != 1 || page.Data[0].Delivered || !strings.Contains(string(page.Data[0].Error), "The stored secrets cannot be opened") {
					t.Errorf("its owner reads %+v, %v", page, err)
				}
				if log := b.log.String(); !strings.Contains(log, `"level":"ERROR","msg":"the stored secrets of a callback cannot be opened"`) || !strings.Contains(log, f.ID.String()) {
					t.Errorf("the operator reads %s", log)
				}
			}
			if n := b.jobsLeft(t); n != 0 || len(r.all()) != 0 {
				t.Errorf("%d jobs are left, %d requests were sent", n, len(r.all()))
			}
			b.setSealed(t, flipped, stored)
			b.setSealed(t, moved, own)
			for _, f := range []Final{flipped, moved} {
				if err := b.service.Replay(t.Context(), f.WorkspaceID, f.ID, false); err != nil {
					t.Fatal(err)
				}
				if classes := b.await(t, 1); classes[0] != "" || b.row(t, f).State != "DELIVERED" {
					t.Errorf("the replay ended as %v", classes)
				}
			}
			if strings.Contains(b.log.String(), canary) {
				t.Errorf("a secret stands in the log: %s", b.log)
			}
		})
	}
}

// What this process has no key for another may deliver, or this one later: that
// is no attempt, until it has lasted longer than any rotation of keys.
func TestMT06SecretsUnderAKeyThatIsNotHeldWait(t *testing.T) {
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
	turn := func(f Final, age time.Duration) time.Duration {
		t.Helper()
		again, err := b.deliverer.work(t.Context(), &river.Job[Args]{
			JobRow: &rivertype.JobRow{ID: *b.row(t, f).JobID, CreatedAt: time.Now().Add(-age)},
			Args:   Args{WorkspaceID: f.WorkspaceID, ExecutionID: f.ID},
		})
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	for _, f := range finals {
		for age, pause := range map[time.Duration]time.Duration{0: minKeyPause, time.Hour: maxKeyPause, keyPatience - time.Minute: maxKeyPause} {
			if again := turn(f, age); again != pause {
				t.Errorf("after %v it comes again in %v", age, again)
			}
		}
		if row := b.row(t, f); row.State != stateQueued || row.AttemptCount != 0 || row.LastError != nil {
			t.Errorf("it is %s after %d attempts with %s", row.State, row.AttemptCount, row.LastError)
		}
	}
	if n := strings.Count(b.log.String(), "a master key that this process does not have"); n != 1 || strings.Contains(b.log.String(), "ERROR") {
		t.Errorf("it is logged %d times: %s", n, b.log)
	}
	b.deliverer.Keyring = others
	if again := turn(finals[0], keyPatience+time.Hour); again != 0 || b.row(t, finals[0]).State != "DELIVERED" {
		t.Errorf("a process with the key did not deliver: %+v", b.row(t, finals[0]))
	}
	b.deliverer.Keyring = here
	if again := turn(finals[1], keyPatience); again != 0 || b.row(t, finals[1]).State != "EXHAUSTED" || len(r.all()) != 1 {
		t.Errorf("after a day without the key: again in %v, %+v", again, b.row(t, finals[1]))
	}
	if classes := b.await(t, 2); !slices.Equal(classes, []string{"", classSecrets}) {
		t.Errorf("the attempts are %v", classes)
	}
}

func (b *bench) setSealed(t *testing.T, f Final, sealed []byte) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), "UPDATE callbacks SET sealed = $1 WHERE execution_id = $2", sealed, f.ID); err != nil {
		t.Fatal(err)
	}
}
