// Package workflow stores the definitions of workflows and their versions, and loads them for runs
// (contract 4.8, decisions 8.1 and 8.12).
//
// The package runs nothing. Package graph defines what a definition means. Literal secrets are
// sealed and stored separately from the definition. Invariant: every stored version compiled when
// it was saved, and no version ever changes.
package workflow

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Service saves, reads and loads workflows.
type Service struct {
	// Unfit returns the names of the schedules of a workflow whose input check refuses. Nil: no schedule counts.
	Unfit func(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, check func(json.RawMessage) error) ([]string, error)
	Turns *permit.Turns // of the database; nil: no limit

	db      postgres.DB
	modules *component.Registry
	keyring *seal.Keyring
	plans   *planCache
}

// NewService returns a Service. conn must see only the workspace of postgres.Scope.
func NewService(conn postgres.DB, modules *component.Registry, keyring *seal.Keyring) *Service {
	return &Service{db: conn, modules: modules, keyring: keyring, plans: newPlanCache()}
}

// Draft is the content of a save. The JSON has the form of the contract. A nil field is missing.
type Draft struct {
	Key                                        string // "": made from the name of a new workflow, otherwise unchanged
	Name, Description                          string
	Status                                     api.WorkflowStatus // "": unchanged, ACTIVE for a new workflow
	InputSchema                                json.RawMessage
	Retry                                      json.RawMessage // the default policy of components; nil: none
	DeadlineMs                                 *int64          // of runs, by default; nil: none
	Components, SequenceEdges, DataConnections json.RawMessage
	Triggers                                   json.RawMessage
	Strict                                     bool           // reject fields of a component's input and config that its module does not define
	Form                                       []fault.Detail // faults in the form of the request, reported with the other errors
}

// CreateParams are the parameters of Create.
type CreateParams struct {
	WorkspaceID uuid.UUID
	Draft       Draft
	Idempotency *idempotency.Key // nil: each request creates a workflow
}

// Create stores a new workflow as version 1, or returns the workflow that an earlier request with
// the same Idempotency-Key created. It returns INVALID_INPUT (422) with all errors of the
// definition.
func (s *Service) Create(ctx context.Context, p CreateParams) (made api.Workflow, replayed bool, err error) {
	id, err := uuid7.New()
	if err != nil {
		return made, false, fmt.Errorf("make workflow id: %w", err)
	}
	err = s.Turns.Begin(ctx, p.WorkspaceID, s.db, func(tx pgx.Tx) error {
		var warnings []api.WorkflowWarning
		id, replayed, err = p.Idempotency.OnceTx(ctx, tx, id, func() (err error) {
			warnings, err = s.createTx(ctx, tx, p.WorkspaceID, id, p.Draft)
			return err
		})
		if err != nil {
			return err
		}
		if replayed {
			warnings, err = s.warnings(ctx, tx, p.WorkspaceID, id)
		}
		if err != nil {
			return err
		}
		made, err = s.get(ctx, tx, p.WorkspaceID, id, nil)
		made.Warnings = &warnings
		return err
	})
	err = postgres.Resolve(ctx, s.db, err, func(ctx context.Context) error {
		_, err := read(ctx, s.db, p.WorkspaceID, id, nil)
		return err
	})
	return made, replayed, err
}

// warnings returns the warnings about the current version of a workflow.
func (s *Service) warnings(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID) ([]api.WorkflowWarning, error) {
	row, err := read(ctx, conn, workspaceID, workflowID, nil)
	if err != nil {
		return nil, err
	}
	var d definition
	if err := json.Unmarshal(row.Definition, &d); err != nil {
		return nil, fmt.Errorf("decode the stored definition: %w", err)
	}
	warnings, _ := review(d, s.modules) // ignore errors: the version may have been saved when the checks were less strict
	absent, err := s.absent(ctx, conn, workspaceID, d)
	return append(warnings, absent...), err
}

func (s *Service) createTx(ctx context.Context, tx pgx.Tx, workspaceID, id uuid.UUID, draft Draft) ([]api.WorkflowWarning, error) {
	saved, err := s.checkDraft(draft, nil)
	if err != nil {
		return nil, err
	}
	if draft.Status == "" {
		draft.Status = api.WorkflowStatusACTIVE
	}
	err = insertTx(ctx, tx, db.WorkflowInsertParams{
		WorkspaceID: workspaceID, ID: id, Key: draft.Key, Name: draft.Name, Description: draft.Description, Status: string(draft.Status),
	})
	if err != nil {
		return nil, err
	}
	v := version{workspaceID: workspaceID, workflowID: id, number: 1, name: draft.Name, description: draft.Description}
	if err := s.insertVersionTx(ctx, tx, v, saved); err != nil {
		return nil, err
	}
	if err := recordAudit(ctx, tx, v, "created", map[string]any{"name": draft.Name}); err != nil {
		return nil, err
	}
	return s.withAbsent(ctx, tx, workspaceID, saved)
}

// Get returns a version of a workflow. A nil number means the current version. It returns
// NOT_FOUND for an unknown workflow or version, or if they belong to another workspace.
func (s *Service) Get(ctx context.Context, workspaceID, workflowID uuid.UUID, number *int32) (api.Workflow, error) {
	return s.get(ctx, s.db, workspaceID, workflowID, number)
}

func (s *Service) get(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number *int32) (api.Workflow, error) {
	row, err := read(ctx, conn, workspaceID, workflowID, number)
	if err != nil {
		return api.Workflow{}, err
	}
	return present.Workflow(row)
}

// read returns the row of a version of a workflow. A nil number means the current version.
func read(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number *int32) (db.WorkflowGetRow, error) {
	row, err := db.New().WorkflowGet(ctx, conn, db.WorkflowGetParams{WorkspaceID: workspaceID, ID: workflowID, Version: number})
	if postgres.NotFound(err) {
		return row, notFound(number)
	}
	if err != nil {
		return row, fmt.Errorf("read workflow: %w", err)
	}
	return row, nil
}

func notFound(number *int32) error {
	if number != nil {
		return fault.New(fault.NotFound, "The workflow has no such version, or there is no workflow with this ID or key.")
	}
	return fault.New(fault.NotFound, "There is no workflow with this ID or key.")
}

// ListParams selects a page of a list (decisions 1.5).
type ListParams struct {
	Limit  int                // 1..100
	Cursor string             // of the previous page; "": the first page
	Status api.WorkflowStatus // "": all except ARCHIVED
}

// List returns a page of the workspace's workflows, newest first. It returns INVALID_INPUT for an
// invalid cursor.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p ListParams) (page api.WorkflowPage, err error) {
	query := db.WorkflowListParams{WorkspaceID: workspaceID}
	if p.Status != "" {
		query.Status = new(string(p.Status))
	}
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("workflows", p.Limit, p.Cursor, func(before uuid.UUID, maxRows int32) ([]db.WorkflowListRow, error) {
		query.Before, query.MaxRows = before, maxRows
		return db.New().WorkflowList(ctx, s.db, query)
	}, func(row db.WorkflowListRow) (uuid.UUID, api.WorkflowSummary, error) {
		return row.ID, api.WorkflowSummary{
			ID: row.ID, Key: row.Key, Name: row.Name, Description: row.Description, Status: api.WorkflowStatus(row.Status), Version: row.Version,
			CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
		}, nil
	})
	return page, err
}

// Names returns the names of workflows by ID. It leaves out unknown IDs.
func (s *Service) Names(ctx context.Context, workspaceID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, err := db.New().WorkflowListNames(ctx, s.db, db.WorkflowListNamesParams{WorkspaceID: workspaceID, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("list the names of workflows: %w", err)
	}
	names := map[uuid.UUID]string{}
	for _, row := range rows {
		names[row.ID] = row.Name
	}
	return names, nil
}

// recordAudit adds a change of a workflow to the audit log, in the transaction of the change.
func recordAudit(ctx context.Context, tx pgx.Tx, v version, what string, details map[string]any) error {
	details["version"] = v.number
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: v.workspaceID, Action: "workflow." + what, SubjectKind: "workflow", SubjectID: v.workflowID.String(), Details: details,
	})
}
