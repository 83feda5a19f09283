package workflow

import (
	"cmp"
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

// version is a saved version of a workflow without its definition.
type version struct {
	workspaceID, workflowID uuid.UUID
	number                  int32
	name, description       string
}

// insertVersionTx stores a version. It returns INSUFFICIENT_CREDITS if the workspace has reached
// its storage limit for the month.
func (s *Service) insertVersionTx(ctx context.Context, tx pgx.Tx, v version, what stored) error {
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

// ReplaceParams are the parameters of Replace.
type ReplaceParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	Expected                []int32 // the current version must be one of these; nil: any version
	Draft                   Draft
}

// Replace saves a workflow as its next version. It returns NOT_FOUND, PRECONDITION_FAILED if the
// current version is not one of those expected, CONFLICT if the workflow is archived and the draft
// has no status or another workflow has the key, and INVALID_INPUT (422) with all errors of the definition.
func (s *Service) Replace(ctx context.Context, p ReplaceParams) (replaced api.Workflow, err error) {
	err = s.Turns.Begin(ctx, p.WorkspaceID, s.db, func(tx pgx.Tx) error {
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
		p.Draft.Key = cmp.Or(p.Draft.Key, present.Key)
		saved, err := s.checkDraft(p.Draft, s.earlier(ctx, tx, p.WorkspaceID, present))
		if err != nil {
			return err
		}
		v, err := s.saveTx(ctx, tx, p.WorkspaceID, p.WorkflowID, p.Draft, saved)
		if err != nil {
			return err
		}
		if err := recordAudit(ctx, tx, v, "replaced", map[string]any{"name": v.name, "status": p.Draft.Status}); err != nil {
			return err
		}
		if replaced, err = s.get(ctx, tx, p.WorkspaceID, p.WorkflowID, nil); err != nil {
			return err
		}
		warnings, err := s.versionWarnings(ctx, tx, v, saved)
		replaced.Warnings = &warnings
		return err
	})
	return replaced, err
}

// earlier is the version that a save replaces.
type earlier struct {
	raw        json.RawMessage // the stored definition
	secretFunc func() (secrets, error)
	// changedFunc returns the variables in names that have changed since the version was saved.
	changedFunc func(names []string) ([]string, error)
}

// earlier returns the version that a save replaces.
func (s *Service) earlier(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, present db.WorkflowGetRow) *earlier {
	return &earlier{
		raw: present.Definition,
		secretFunc: once(func() (secrets, error) {
			return s.readSecrets(ctx, tx, workspaceID, present.ID, present.Version)
		}),
		changedFunc: func(names []string) ([]string, error) {
			return environment.ChangedTx(ctx, tx, workspaceID, names, present.SavedAt)
		},
	}
}

// secrets returns a function that reads the secrets of the version, or nil if e is nil.
func (e *earlier) secrets() func() (secrets, error) {
	if e == nil {
		return nil
	}
	return e.secretFunc
}

// lockTx locks the workflow until tx ends and returns its current version. It returns NOT_FOUND,
// or PRECONDITION_FAILED if the current version is not one of those expected.
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

// notArchived returns CONFLICT if the workflow is archived.
func notArchived(present db.WorkflowGetRow) error {
	if api.WorkflowStatus(present.Status) == api.WorkflowStatusARCHIVED {
		return &fault.Error{Code: fault.Conflict, Reason: "workflow_archived", Message: "The workflow is archived. To restore it, send it with the status ACTIVE, and with another key if its own is taken."}
	}
	return nil
}

// saveTx stores the next version of a workflow that lockTx has locked.
func (s *Service) saveTx(ctx context.Context, tx pgx.Tx, workspaceID, workflowID uuid.UUID, draft Draft, what stored) (version, error) {
	v := version{workspaceID: workspaceID, workflowID: workflowID, name: draft.Name, description: draft.Description}
	var err error
	v.number, err = db.New().WorkflowUpdate(ctx, tx, db.WorkflowUpdateParams{
		WorkspaceID: workspaceID, ID: workflowID, Key: draft.Key, Name: draft.Name, Description: draft.Description, Status: string(draft.Status),
	})
	if postgres.Taken(err) { // by a new key, or by a restored workflow
		return v, keyTaken()
	}
	if err != nil {
		return v, fmt.Errorf("update workflow: %w", err)
	}
	return v, s.insertVersionTx(ctx, tx, v, what)
}

// Archive archives a workflow, which can then no longer be run. If the workflow is already
// archived, Archive does nothing. It returns NOT_FOUND, or PRECONDITION_FAILED if the current
// version is not one of those expected. If expected is nil, any version is accepted.
func (s *Service) Archive(ctx context.Context, workspaceID, workflowID uuid.UUID, expected []int32) (archived api.Workflow, err error) {
	err = s.Turns.Begin(ctx, workspaceID, s.db, func(tx pgx.Tx) error {
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
	return recordAudit(ctx, tx, v, "archived", map[string]any{"name": present.Name})
}

// UpdateParams are the parameters of UpdateComponent. A nil field leaves the component's field
// unchanged.
type UpdateParams struct {
	WorkspaceID, WorkflowID uuid.UUID
	ComponentID             string
	Expected                []int32         // the current version must be one of these; nil: any version
	Restricted              bool            // the key is restricted to some workflows
	Config                  json.RawMessage // merge patch of the config (RFC 7396)
	Name                    *string
	Position                json.RawMessage
}

// UpdateComponent changes a component and saves the workflow as its next version (contract 4.8).
// It returns NOT_FOUND for an unknown workflow or component, CONFLICT for an archived workflow,
// PRECONDITION_FAILED, FORBIDDEN for a change that a restricted key may not make, and
// INVALID_INPUT (422). The pointer of an error in the component is relative to the component. All
// other pointers are relative to the workflow.
func (s *Service) UpdateComponent(ctx context.Context, p UpdateParams) (updated api.UpdatedWorkflowComponent, err error) {
	err = s.Turns.Begin(ctx, p.WorkspaceID, s.db, func(tx pgx.Tx) error {
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
		return api.UpdatedWorkflowComponent{}, fmt.Errorf("decode the stored definition: %w", err)
	}
	at := d.index(p.ComponentID)
	if at < 0 {
		return api.UpdatedWorkflowComponent{}, fault.New(fault.NotFound, "There is no component with this ID in the workflow.")
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
		return api.UpdatedWorkflowComponent{}, relativeTo(err, fmt.Sprintf("/components/%d", at))
	}
	v, err := s.saveTx(ctx, tx, p.WorkspaceID, p.WorkflowID, Draft{Key: present.Key, Name: present.Name, Description: present.Description, Status: api.WorkflowStatus(present.Status)}, saved)
	if err != nil {
		return api.UpdatedWorkflowComponent{}, err
	}
	if err := json.Unmarshal(saved.shown, &d); err != nil {
		return api.UpdatedWorkflowComponent{}, fmt.Errorf("decode the stored definition: %w", err)
	}
	updated := updatedComponent(d.Components[at], v.number)
	if !p.Restricted { // such a key must not learn what exists
		if saved.warnings, err = s.versionWarnings(ctx, tx, v, saved); err != nil {
			return api.UpdatedWorkflowComponent{}, err
		}
	}
	updated.Warnings = &saved.warnings
	return updated, recordAudit(ctx, tx, v, "component_updated", map[string]any{"componentId": p.ComponentID})
}
