package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// maxKey is the maximum length of a key.
const maxKey = 63

var (
	keyShape  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	uuidShape = regexp.MustCompile(`^([0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)
)

// reserved reports whether a key has another meaning in an address: a path of the API, or an ID.
func reserved(key string) bool {
	return key == "executions" || key == "validate" || uuidShape.MatchString(key)
}

// keyFaults returns the fault of a given key, if any. "" means that none is given.
func keyFaults(key string) []fault.Detail {
	message := ""
	switch {
	case key == "":
		return nil
	case !keyShape.MatchString(key):
		message = "must start with a letter from a to z and contain only such letters, digits and hyphens, at most 63 characters"
	case uuidShape.MatchString(key):
		message = "must not look like a UUID"
	case reserved(key):
		message = "is reserved"
	default:
		return nil
	}
	return []fault.Detail{{Code: string(fault.InvalidInput), Message: message, Pointer: "/key"}}
}

// keyTaken is the CONFLICT of a key that another workflow has.
func keyTaken() *fault.Error {
	return &fault.Error{
		Code: fault.Conflict, Reason: "key_taken", Message: "Another workflow of the workspace has this key.",
		Details: []fault.Detail{{Code: string(fault.Conflict), Message: "is taken by another workflow", Pointer: "/key"}},
	}
}

// KeyOf returns the key that the name of a workflow makes, or "" if the name has no letter from a to z.
func KeyOf(name string) string {
	var key strings.Builder
	for _, r := range norm.NFKD.String(name) {
		r = unicode.ToLower(r)
		switch {
		case unicode.Is(unicode.M, r):
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && key.Len() > 0:
			key.WriteRune(r)
		case key.Len() > 0 && !strings.HasSuffix(key.String(), "-"):
			key.WriteByte('-')
		}
		if key.Len() == maxKey {
			break
		}
	}
	return strings.TrimRight(key.String(), "-")
}

// numbered is the highest number that follows a key made from a name. More workflows of one name get
// random digits instead, so that saving one takes two statements.
const numbered = 99

// candidates returns the keys that a workflow with this name may get, the best one first.
func candidates(name string) (keys []string) {
	random := uuid.New().String()[:8]
	base := KeyOf(name)
	if base == "" {
		return []string{"workflow-" + random}
	}
	if !reserved(base) {
		keys = append(keys, base)
	}
	with := func(suffix string) string {
		return strings.TrimRight(base[:min(len(base), maxKey-len(suffix))], "-") + suffix
	}
	for n := 2; n <= numbered; n++ {
		keys = append(keys, with(fmt.Sprintf("-%d", n)))
	}
	return append(keys, with("-"+random))
}

// insertTx inserts the row of a workflow, with a key made from its name if it has none. It returns
// CONFLICT if the key is taken.
func insertTx(ctx context.Context, tx pgx.Tx, row db.WorkflowInsertParams) error {
	keys := []string{row.Key}
	if row.Key == "" {
		keys = candidates(row.Name)
		taken, err := db.New().WorkflowListTakenKeys(ctx, tx, db.WorkflowListTakenKeysParams{WorkspaceID: row.WorkspaceID, Keys: keys})
		if err != nil {
			return fmt.Errorf("list keys of workflows: %w", err)
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(taken, key) })
	}
	for _, row.Key = range keys {
		inserted, err := db.New().WorkflowInsert(ctx, tx, row)
		if err != nil {
			return fmt.Errorf("insert workflow: %w", err)
		}
		if inserted > 0 {
			return nil
		}
	}
	return keyTaken()
}

// Find returns the ID of a workflow that is given by its ID or its key. It returns the nil UUID, which no
// workflow has, if no workflow has the key. An archived workflow has only its ID.
func (s *Service) Find(ctx context.Context, workspaceID uuid.UUID, name string) (uuid.UUID, error) {
	return find(ctx, s.db, workspaceID, name)
}

func find(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, name string) (uuid.UUID, error) {
	if !IsKey(name) {
		id, _ := asID(name)
		return id, nil
	}
	id, err := db.New().WorkflowFind(ctx, conn, db.WorkflowFindParams{WorkspaceID: workspaceID, Key: name})
	if err != nil && !postgres.NotFound(err) {
		return uuid.Nil, fmt.Errorf("find a workflow by its key: %w", err)
	}
	return id, nil
}

// IsKey reports whether a name of a workflow is a key, and not an ID.
func IsKey(name string) bool {
	_, isID := asID(name)
	return !isID && keyShape.MatchString(name)
}

// asID returns the ID that a name is, in upper or lower case.
func asID(name string) (uuid.UUID, bool) {
	id, err := uuid.Parse(name)
	if err != nil || len(name) != len(uuid.Nil.String()) {
		return uuid.Nil, false
	}
	return id, true
}

// Child is the workflow that a RUN_WORKFLOW names.
type Child struct {
	ID      uuid.UUID // the nil UUID if there is no workflow with the key
	Version *int32    // nil: the current one
}

// childConfig is the config of a RUN_WORKFLOW. One of the two fields names the workflow.
type childConfig struct {
	Workflow   string `json:"workflow"`
	WorkflowID string `json:"workflowId"`
	Version    *int32 `json:"version"`
}

// name returns the name of the workflow, and the field that has it.
func (c childConfig) name() (name, field string) {
	if c.Workflow != "" {
		return c.Workflow, "workflow"
	}
	return c.WorkflowID, "workflowId"
}

// Child returns the workflow that the config of a RUN_WORKFLOW names. It returns INVALID_INPUT if the
// config names none.
func (s *Service) Child(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, config json.RawMessage) (child Child, err error) {
	var c childConfig
	if json.Unmarshal(config, &c) != nil {
		return child, fault.New(fault.InvalidInput, "The config of %s names no workflow.", component.RunWorkflow)
	}
	child.Version = c.Version
	name, _ := c.name()
	child.ID, err = find(ctx, conn, workspaceID, name)
	return child, err
}
