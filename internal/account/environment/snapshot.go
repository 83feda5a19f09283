package environment

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Snapshot holds the variables of a run, copied when it started.
type Snapshot struct {
	// Values are the values of the variables that the workflow refers to, as far as they exist.
	Values envref.Values `json:"values"`
	// Secrets are the values of secret variables and the secrets of the parent run. Any text that
	// may contain a secret must be redacted.
	Secrets []string `json:"secrets"`
	// Changed are the names in Wanted.Fixed whose variables were changed or deleted after the
	// version was saved.
	Changed []string `json:"changed,omitempty"`
	// Tokens are the variables that are access tokens, by name, with the marks that stand for them in the
	// inputs of calls.
	Tokens map[string]string `json:"tokens,omitempty"`
}

// mark returns a new mark. No one can guess it, so no text of a run can contain it by intention; it is made of
// letters and digits, so it passes wherever a token does.
func mark() string { return "WeftToken" + rand.Text() }

// Wanted describes the content of the snapshot of a run.
type Wanted struct {
	Names   []string  // variables that the workflow refers to
	Fixed   []string  // variables that must not change after SavedAt
	SavedAt time.Time // when the version of the workflow was saved
	Outer   []string  // secrets of the parent run
}

// SnapshotAt returns the AAD of the sealed snapshot of a run.
func SnapshotAt(workspaceID, runID uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "workflow_runs", Row: runID.String(), Field: "variables"}
}

// Take copies the variables for a run that starts, using a connection that sees the workspace. It
// returns the variables sealed for the row of the run, or nil if nothing is wanted.
func (s *Service) Take(ctx context.Context, conn postgres.DB, workspaceID, runID uuid.UUID, w Wanted) ([]byte, error) {
	if len(w.Names) == 0 && len(w.Outer) == 0 {
		return nil, nil
	}
	snapshot := Snapshot{Values: envref.Values{}, Secrets: slices.Clone(w.Outer)}
	if len(w.Names) > 0 {
		rows, err := db.New().VariableListNamed(ctx, conn, db.VariableListNamedParams{WorkspaceID: workspaceID, Names: w.Names})
		if err != nil {
			return nil, fmt.Errorf("read environment variables: %w", err)
		}
		for _, row := range rows {
			if row.Kind == KindToken {
				if snapshot.Tokens == nil {
					snapshot.Tokens = map[string]string{}
				}
				snapshot.Tokens[row.Name] = mark()
				continue
			}
			value, err := s.open(workspaceID, row.ID, row.Sealed)
			if err != nil {
				return nil, err
			}
			snapshot.Values[row.Name] = value
			if row.Secret && !slices.Contains(snapshot.Secrets, value) {
				snapshot.Secrets = append(snapshot.Secrets, value)
			}
		}
	}
	if len(w.Fixed) > 0 { // read after the values, so that a change in between is noticed
		var err error
		if snapshot.Changed, err = changed(ctx, conn, workspaceID, w.Fixed, w.SavedAt); err != nil {
			return nil, err
		}
	}
	plain, err := strictjson.Encode(snapshot)
	if err != nil {
		return nil, errors.New("encode the environment variables of a run") // the cause may contain values
	}
	sealed, err := s.keyring.Seal(plain, SnapshotAt(workspaceID, runID))
	if err != nil {
		return nil, fmt.Errorf("seal the environment variables of a run: %w", err)
	}
	return sealed, nil
}

// Open returns the snapshot of a run. It is empty if sealed is nil.
func (s *Service) Open(workspaceID, runID uuid.UUID, sealed []byte) (snapshot Snapshot, err error) {
	if sealed == nil {
		return snapshot, nil
	}
	plain, err := s.keyring.Open(sealed, SnapshotAt(workspaceID, runID))
	if err != nil {
		return snapshot, fmt.Errorf("open the environment variables of a run: %w", err)
	}
	if json.Unmarshal(plain, &snapshot) != nil {
		return snapshot, errors.New("decode the environment variables of a run") // the cause may contain values
	}
	return snapshot, nil
}

// commitDelay is the maximum time from the recording of a variable's change to its commit.
const commitDelay = 5 * time.Second

// ChangedSince returns the names of variables that changed or were deleted after start. It also
// returns variables that changed within commitDelay before start, because these changes may have
// been committed after start.
func ChangedSince(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, names []string, start time.Time) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	return changed(ctx, conn, workspaceID, names, start.Add(-commitDelay))
}

// ChangedTx is ChangedSince without its margin: it locks the variables of the workspace until tx
// ends. A save of a workflow uses it to decide whether stored secrets may be kept.
func ChangedTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, names []string, since time.Time) ([]string, error) {
	if err := lockTx(ctx, tx, workspaceID); err != nil {
		return nil, err
	}
	return changed(ctx, tx, workspaceID, names, since)
}

func changed(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, names []string, since time.Time) ([]string, error) {
	found, err := db.New().VariableChangeList(ctx, conn, db.VariableChangeListParams{WorkspaceID: workspaceID, Names: names, Since: since})
	if err != nil {
		return nil, fmt.Errorf("read changed environment variables: %w", err)
	}
	return found, nil
}

// recordTx records that the value of a variable changed or was deleted. The caller must hold the
// lock of the variables.
func recordTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, name string) error {
	if err := db.New().VariableChangeRecord(ctx, tx, db.VariableChangeRecordParams{WorkspaceID: workspaceID, Name: name}); err != nil {
		return fmt.Errorf("record the change of an environment variable: %w", err)
	}
	return nil
}

// lockTx prevents changes of the workspace's variables by other transactions until tx ends.
func lockTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID) error {
	if err := db.New().LockName(ctx, tx, "environment "+workspaceID.String()); err != nil {
		return fmt.Errorf("lock environment variables: %w", err)
	}
	return nil
}
