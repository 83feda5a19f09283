package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// keysRotateMaster re-encrypts the values that are encrypted with an old master key. If
// WEFT_MASTER_KEY is set, the command uses the same keys as `weft serve` and `weft work`, and the
// new key must already be the primary key. Otherwise it creates a new key in the data folder of a
// `weft dev` that is not running.
type keysRotateMaster struct {
	database
}

func (k *keysRotateMaster) Run(s *session, pool *pgxpool.Pool) error {
	if s.getenv("WEFT_MASTER_KEY") == "" {
		return k.ofFolder(s, pool)
	}
	ring, err := app.KeyringFromEnv(s.environ)
	if err != nil {
		return err
	}
	if err := knownEverywhere(s.ctx, pool, ring); err != nil {
		return err
	}
	report, err := reencrypt(s, pool, ring)
	if err != nil {
		return err
	}
	return reportKeys(s, ring, report)
}

// ofFolder rotates the key of a weft dev.
func (k *keysRotateMaster) ofFolder(s *session, pool *pgxpool.Pool) error {
	uses, err := rotation.Uses(s.ctx, pool)
	if err != nil {
		return err
	}
	if len(uses) > 0 {
		return fmt.Errorf("a process uses the master key of %s; stop it first (for weft serve and weft work, set the same WEFT_MASTER_KEY and WEFT_MASTER_KEYS_OLD as they have)", k.DataDir)
	}
	file := app.KeyFileOf(k.DataDir)
	ring, err := file.AddKey()
	if err != nil {
		return err
	}
	report, err := reencrypt(s, pool, ring)
	if err != nil {
		return err
	}
	if report.Done() {
		old, err := file.ArchiveOldKeys()
		if err != nil {
			return err
		}
		for _, path := range old {
			s.note("The old key is in %s. Keep it as long as you keep backups that were made with it.", path)
		}
	}
	return reportKeys(s, ring, report)
}

// knownEverywhere returns an error if a running process could not open values under the new key.
func knownEverywhere(ctx context.Context, pool *pgxpool.Pool, ring *seal.Keyring) error {
	uses, err := rotation.Uses(ctx, pool)
	if err != nil {
		return err
	}
	primary, without := ring.Fingerprints()[0], 0
	for _, use := range uses {
		if !use.Opens(primary) {
			without++
		}
	}
	if without > 0 {
		return fmt.Errorf("%d of %d running processes do not have the key %s: add the key to WEFT_MASTER_KEYS_OLD of all processes, then make it the WEFT_MASTER_KEY of all processes, then repeat this command", without, len(uses), primary)
	}
	return nil
}

func reencrypt(s *session, pool *pgxpool.Pool, ring *seal.Keyring) (rotation.Report, error) {
	s.note("Re-encrypting with the key %s. You can interrupt and repeat this at any time.", ring.Fingerprints()[0])
	encrypting := s.wait("Re-encrypting")
	defer encrypting.end()
	report, err := rotation.Run(s.ctx, pool, ring, func(p rotation.Progress) {
		encrypting.show(fmt.Sprintf("%s: %d values checked, %d of them re-encrypted", p.Table, p.Scanned, p.Sealed))
	})
	if err != nil || report.Sealed == 0 {
		return report, err
	}
	return report, auditRotation(s.ctx, pool, ring.Fingerprints()[0])
}

// auditRotation records in the audit log of every workspace that its secrets were re-encrypted.
func auditRotation(ctx context.Context, pool *pgxpool.Pool, primary string) error {
	p := db.WorkspaceListIdsParams{MaxRows: 100}
	for {
		ids, err := db.New().WorkspaceListIds(ctx, pool, p)
		if err != nil || len(ids) == 0 {
			return err
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			for _, id := range ids {
				err := audit.RecordTx(ctx, tx, audit.Event{WorkspaceID: id, Action: "master_key.rotated", Details: map[string]any{"key": primary}})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		p.After = ids[len(ids)-1]
	}
}

// reportKeys prints which keys are still needed. It returns an error if an old key is.
func reportKeys(s *session, ring *seal.Keyring, report rotation.Report) error {
	s.note("%s", counted(report.Sealed, "1 value was re-encrypted.", "%d values were re-encrypted."))
	for _, place := range report.First {
		s.note("None of the given keys decrypts %s.", place)
	}
	if report.Unreadable > 0 {
		return fmt.Errorf("%s damaged or encrypted with a missing key: add that key to WEFT_MASTER_KEYS_OLD and repeat this command; do not remove any key",
			counted(report.Unreadable, "1 value is", "%d values are"))
	}
	needed, err := listKeys(s, ring, report)
	if err == nil && needed {
		s.note("An old key is still needed. Set WEFT_MASTER_KEY to the new key in the processes that encrypt with an old key, restart them, then repeat this command.")
		return errQuiet
	}
	return err
}

// listKeys prints a line for each key: how many processes seal under it, and whether it can be
// removed.
func listKeys(s *session, ring *seal.Keyring, report rotation.Report) (needed bool, err error) {
	type key struct {
		Key       string `json:"key"`
		Processes int    `json:"processes"`
		State     string `json:"state"`
	}
	var all []key
	strange := 0 // processes that seal under an unknown key
	for _, use := range report.Uses {
		if !slices.ContainsFunc(ring.Fingerprints(), use.Seals) {
			strange++
		}
	}
	if strange > 0 {
		all = append(all, key{"(not given)", strange, "is still needed"})
	}
	for i, print := range ring.Fingerprints() {
		processes := 0
		for _, use := range report.Uses {
			if use.Seals(print) {
				processes++
			}
		}
		state := "can be removed: no value is encrypted with it"
		switch {
		case i == 0:
			state = "all values are encrypted with it"
		case processes > 0 || report.Left > 0:
			state, needed = "is still needed", true
		}
		if i == 0 && report.Left > 0 {
			state = fmt.Sprintf("all but %s encrypted with it", counted(report.Left, "1 value are", "%d values are"))
		}
		all = append(all, key{print, processes, state})
	}
	return needed || strange > 0 || report.Left > 0, s.printAll(all, view{columns: "KEY=key PROCESSES=processes STATE=state"})
}
