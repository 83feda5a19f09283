package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/seal"
	"github.com/weft-automation/weft/internal/strictjson"
	"github.com/weft-automation/weft/internal/variable"
)

// Snapshot is what a run took along when it began.
type Snapshot struct {
	// Values are those of the variables that its workflow names, as far as there were any.
	Values variable.Values `json:"values"`
	// Secrets are what is hidden wherever it would be shown: the values of those of them that
	// are secret, and what a run around this one hides.
	Secrets []string `json:"secrets"`
}

// SnapshotAt names where the sealed snapshot of a run belongs.
func SnapshotAt(workspaceID, runID uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "workflow_runs", Row: runID.String(), Field: "variables"}
}

// Take takes the variables of these names for a run that begins, by a connection that sees
// the workspace, and seals them for its row. outer are the secrets of the run around it.
// It is nil where there is nothing to be taken.
func (s *Service) Take(ctx context.Context, conn postgres.DB, workspaceID, runID uuid.UUID, names, outer []string) ([]byte, error) {
	if len(names) == 0 && len(outer) == 0 {
		return nil, nil
	}
	snapshot := Snapshot{Values: variable.Values{}, Secrets: slices.Clone(outer)}
	if len(names) > 0 {
		rows, err := db.New().VariableListNamed(ctx, conn, db.VariableListNamedParams{WorkspaceID: workspaceID, Names: names})
		if err != nil {
			return nil, fmt.Errorf("read environment variables: %w", err)
		}
		for _, row := range rows {
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
	plain, err := strictjson.Encode(snapshot)
	if err != nil {
		return nil, errors.New("write the environment variables of a run") // what is wrong may show some of it
	}
	sealed, err := s.keyring.Seal(plain, SnapshotAt(workspaceID, runID))
	if err != nil {
		return nil, fmt.Errorf("seal the environment variables of a run: %w", err)
	}
	return sealed, nil
}

// Open is what a run took along; nothing for nil.
func (s *Service) Open(workspaceID, runID uuid.UUID, sealed []byte) (snapshot Snapshot, err error) {
	if sealed == nil {
		return snapshot, nil
	}
	plain, err := s.keyring.Open(sealed, SnapshotAt(workspaceID, runID))
	if err != nil {
		return snapshot, fmt.Errorf("open the environment variables of a run: %w", err)
	}
	if json.Unmarshal(plain, &snapshot) != nil {
		return snapshot, errors.New("read the environment variables of a run")
	}
	return snapshot, nil
}

// settled is how long a change of a variable may take to commit: its time is that of the
// beginning of its transaction.
const settled = 5 * time.Second

// Unchanged reports whether all of these variables exist and were not set since a time, so
// that what took them at that time or later has their present values.
func Unchanged(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, names []string, since time.Time) (bool, error) {
	if len(names) == 0 {
		return true, nil
	}
	count, err := db.New().VariableCountUnchanged(ctx, conn, db.VariableCountUnchangedParams{WorkspaceID: workspaceID, Names: names, Since: since.Add(-settled)})
	if err != nil {
		return false, fmt.Errorf("read environment variables: %w", err)
	}
	return count == int64(len(names)), nil
}
