package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// version is one save of a workflow, but for its definition.
type version struct {
	workspaceID, workflowID uuid.UUID
	number                  int32
	name, description       string
}

// keepTx stores what a save made. INSUFFICIENT_CREDITS if the workspace may store no more in this
// month.
func (s *Service) keepTx(ctx context.Context, tx pgx.Tx, v version, what stored) error {
	err := db.New().WorkflowVersionInsert(ctx, tx, db.WorkflowVersionInsertParams{
		WorkspaceID: v.workspaceID, WorkflowID: v.workflowID, Version: v.number,
		Name: v.name, Description: v.description, Definition: what.shown,
	})
	if err != nil {
		return fmt.Errorf("insert workflow version: %w", err)
	}
	if err := s.sealTx(ctx, tx, v, what.secrets); err != nil {
		return err
	}
	return billing.Books{}.SaveTx(ctx, tx, v.workspaceID, storage.VersionBytes+int64(len(what.shown)))
}

// ReplaceParams says what takes the place of the present version.
type ReplaceParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	Expected                []int32 // the versions that it may replace; nil: any
	Draft                   Draft
}

// Replace saves a workflow anew, as its next version. NOT_FOUND; CONFLICT for one that
// is archived and is given no status; PRECONDITION_FAILED when it is at another version
// than expected; INVALID_INPUT, unprocessable, with all that is wrong.
func (s *Service) Replace(ctx context.Context, p ReplaceParams) (replaced api.Workflow, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		present, err := lockTx(ctx, tx, p.WorkspaceID, p.WorkflowID, p.Expected)
		if err != nil {
			return err
		}
		if p.Draft.Status == "" {
			if err := notArchived(present); err != nil {
				return err
			}
			p.Draft.Status = api.WorkflowStatus(present.Status)
		}
		saved, err := s.checkDraft(p.Draft, s.earlier(ctx, tx, p.WorkspaceID, present))
		if err != nil {
			return err
		}
		v, err := s.saveTx(ctx, tx, p.WorkspaceID, p.WorkflowID, p.Draft, saved)
		if err != nil {
			return err
		}
		if err := tell(ctx, tx, v, "replaced", map[string]any{"name": v.name, "status": p.Draft.Status}); err != nil {
			return err
		}
		replaced, err = s.get(ctx, tx, p.WorkspaceID, p.WorkflowID, nil)
		replaced.Warnings = shown(saved.warnings)
		return err
	})
	return replaced, err
}

// earlier is the version that a save replaces.
type earlier struct {
	raw        json.RawMessage // the stored definition
	secretFunc func() (secrets, error)
	// changedFunc returns those of the variables that changed after the version was saved.
	changedFunc func(names []string) ([]string, error)
}

func (s *Service) earlier(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, present db.WorkflowGetRow) *earlier {
	return &earlier{
		raw: present.Definition,
		secretFunc: once(func() (secrets, error) {
			return s.unsealed(ctx, tx, workspaceID, present.ID, present.Version)
		}),
		changedFunc: func(names []string) ([]string, error) {
			return environment.ChangedTx(ctx, tx, workspaceID, names, present.SavedAt)
		},
	}
}

// secrets returns a function that reads the secrets of the version; nil: there is none.
func (e *earlier) secrets() func() (secrets, error) {
	if e == nil {
		return nil
	}
	return e.secretFunc
}

// lockTx is the present version, which stays it until tx ends.
func lockTx(ctx context.Context, tx pgx.Tx, workspaceID, workflowID uuid.UUID, expected []int32) (db.WorkflowGetRow, error) {
	at, err := db.New().WorkflowLock(ctx, tx, db.WorkflowLockParams{WorkspaceID: workspaceID, ID: workflowID})
	switch {
	case postgres.NotFound(err):
		return db.WorkflowGetRow{}, notFound(nil)
	case err != nil:
		return db.WorkflowGetRow{}, fmt.Errorf("lock workflow: %w", err)
	case expected != nil && !slices.Contains(expected, at):
		return db.WorkflowGetRow{}, fault.New(fault.PreconditionFailed, "The workflow is at version %d, and If-Match names another one.", at)
	}
	return read(ctx, tx, workspaceID, workflowID, nil)
}

func notArchived(present db.WorkflowGetRow) error {
	if api.WorkflowStatus(present.Status) == api.WorkflowStatusARCHIVED {
		return &fault.Error{Code: fault.Conflict, Reason: "workflow_archived", Message: "The workflow is archived; replace it with a status to bring it back."}
	}
	return nil
}

// saveTx makes the next version of a workflow that lockTx holds.
func (s *Service) saveTx(ctx context.Context, tx pgx.Tx, workspaceID, workflowID uuid.UUID, draft Draft, what stored) (version, error) {
	v := version{workspaceID: workspaceID, workflowID: workflowID, name: draft.Name, description: draft.Description}
	var err error
	v.number, err = db.New().WorkflowUpdate(ctx, tx, db.WorkflowUpdateParams{
		WorkspaceID: workspaceID, ID: workflowID, Name: draft.Name, Description: draft.Description, Status: string(draft.Status),
	})
	if err != nil {
		return v, fmt.Errorf("update workflow: %w", err)
	}
	return v, s.keepTx(ctx, tx, v, what)
}

// Archive takes a workflow out of use. Again is the same. It returns NOT_FOUND, or
// PRECONDITION_FAILED if the workflow is at none of the expected versions, where nil is any.
func (s *Service) Archive(ctx context.Context, workspaceID, workflowID uuid.UUID, expected []int32) (archived api.Workflow, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		present, err := lockTx(ctx, tx, workspaceID, workflowID, expected)
		if err != nil {
			return err
		}
		if err := s.archiveTx(ctx, tx, workspaceID, present); err != nil {
			return err
		}
		archived, err = s.get(ctx, tx, workspaceID, workflowID, nil)
		return err
	})
	return archived, err
}

func (s *Service) archiveTx(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, present db.WorkflowGetRow) error {
	if notArchived(present) != nil {
		return nil
	}
	if err := db.New().WorkflowArchive(ctx, tx, db.WorkflowArchiveParams{WorkspaceID: workspaceID, ID: present.ID}); err != nil {
		return fmt.Errorf("archive workflow: %w", err)
	}
	v := version{workspaceID: workspaceID, workflowID: present.ID, number: present.Version}
	return tell(ctx, tx, v, "archived", map[string]any{"name": present.Name})
}

// UpdateParams says what changes in a component; nil leaves it as it is.
type UpdateParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	ComponentID             string
	Expected                []int32         // the versions that it may change; nil: any
	Restricted              bool            // by a key that is restricted to some workflows
	Config                  json.RawMessage // an object that is merged into the present one (RFC 7396)
	Name                    *string
	Position                json.RawMessage
}

// UpdateComponent changes a component and saves the workflow as its next version
// (contract 4.8). NOT_FOUND for the workflow or the component; CONFLICT for an archived
// one; PRECONDITION_FAILED; FORBIDDEN for a change that a restricted key may not make;
// INVALID_INPUT, unprocessable: a fault of the component has a pointer into the component,
// any other one into the workflow.
func (s *Service) UpdateComponent(ctx context.Context, p UpdateParams) (updated api.UpdatedWorkflowComponent, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		present, err := lockTx(ctx, tx, p.WorkspaceID, p.WorkflowID, p.Expected)
		if err != nil {
			return err
		}
		updated, err = s.updateTx(ctx, tx, p, present)
		return err
	})
	return updated, err
}

func (s *Service) updateTx(ctx context.Context, tx pgx.Tx, p UpdateParams, present db.WorkflowGetRow) (api.UpdatedWorkflowComponent, error) {
	var d definition
	if err := json.Unmarshal(present.Definition, &d); err != nil {
		return api.UpdatedWorkflowComponent{}, fmt.Errorf("read the stored definition: %w", err)
	}
	at := d.find(p.ComponentID)
	if at < 0 {
		return api.UpdatedWorkflowComponent{}, fault.New(fault.NotFound, "There is no component with this id in the workflow.")
	}
	if err := notArchived(present); err != nil {
		return api.UpdatedWorkflowComponent{}, err
	}
	if p.Config == nil && p.Name == nil && p.Position == nil {
		return updatedComponent(d.Components[at], present.Version), nil
	}
	before := d.Components[at]
	if err := p.apply(&d.Components[at]); err != nil {
		return api.UpdatedWorkflowComponent{}, err
	}
	if p.Restricted {
		if err := s.checkRestricted(d, before, d.Components[at]); err != nil {
			return api.UpdatedWorkflowComponent{}, err
		}
	}
	saved, err := s.check(d, s.earlier(ctx, tx, p.WorkspaceID, present))
	if err != nil {
		return api.UpdatedWorkflowComponent{}, within(err, fmt.Sprintf("/components/%d", at))
	}
	v, err := s.saveTx(ctx, tx, p.WorkspaceID, p.WorkflowID, Draft{Name: present.Name, Description: present.Description, Status: api.WorkflowStatus(present.Status)}, saved)
	if err != nil {
		return api.UpdatedWorkflowComponent{}, err
	}
	if err := json.Unmarshal(saved.shown, &d); err != nil {
		return api.UpdatedWorkflowComponent{}, fmt.Errorf("read the stored definition: %w", err)
	}
	updated := updatedComponent(d.Components[at], v.number)
	updated.Warnings = shown(saved.warnings)
	return updated, tell(ctx, tx, v, "component_updated", map[string]any{"componentId": p.ComponentID})
}
