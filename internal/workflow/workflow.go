// Package workflow stores the definitions of workflows and their versions, and turns a component
// of one into a call (contract 4.8, decisions 8.1 and 8.12).
//
// It runs nothing; package graph says what a definition means. Secret literals are stored apart
// from the definition, sealed. The one invariant: every stored version compiled when it was saved,
// and none ever changes.
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
	"github.com/weft-automation/weft/internal/platform/idempotency"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Service saves and reads definitions.
type Service struct {
	db      postgres.DB
	modules *component.Registry
	keyring *seal.Keyring
	plans   *plans
}

// NewService makes a Service. The connection works within the workspace of
// postgres.Scope.
func NewService(conn postgres.DB, modules *component.Registry, keyring *seal.Keyring) *Service {
	return &Service{db: conn, modules: modules, keyring: keyring, plans: newPlans()}
}

// Draft is a workflow as somebody saves it; the JSON has the form of the contract, and
// is nil where nothing was given.
type Draft struct {
	Name, Description                          string
	Status                                     api.WorkflowStatus // "" leaves it as it is; a new one is ACTIVE
	InputSchema                                json.RawMessage
	Components, SequenceEdges, DataConnections json.RawMessage
	Triggers                                   json.RawMessage
	Strict                                     bool           // refuse members of a component's input and config that its module does not know
	Unknown                                    []fault.Detail // members that the contract does not know, to be refused with all else that is wrong
}

// CreateParams says what to create.
type CreateParams struct {
	WorkspaceID uuid.UUID
	Draft       Draft
	Idempotency *idempotency.Key // nil: a repeat creates another
}

// Create stores a workflow as its version 1, or finds what the Idempotency-Key made.
// INVALID_INPUT, unprocessable, with all that is wrong with it.
func (s *Service) Create(ctx context.Context, p CreateParams) (made api.Workflow, replayed bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return made, false, fmt.Errorf("make workflow id: %w", err)
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
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
		made.Warnings = shown(warnings)
		return err
	})
	return made, replayed, err
}

// shown are the warnings in the answer of a save; nil: there are none.
func shown(warnings []api.WorkflowWarning) *[]api.WorkflowWarning {
	if len(warnings) == 0 {
		return nil
	}
	return &warnings
}

// warnings returns what is suspicious about the present version of a workflow.
func (s *Service) warnings(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID) ([]api.WorkflowWarning, error) {
	row, err := read(ctx, conn, workspaceID, workflowID, nil)
	if err != nil {
		return nil, err
	}
	var d definition
	if err := json.Unmarshal(row.Definition, &d); err != nil {
		return nil, fmt.Errorf("read the stored definition: %w", err)
	}
	warnings, _ := review(d, s.modules) // it may have been saved when less was refused
	return warnings, nil
}

func (s *Service) createTx(ctx context.Context, tx pgx.Tx, workspaceID, id uuid.UUID, draft Draft) ([]api.WorkflowWarning, error) {
	saved, err := s.checkDraft(draft, nil)
	if err != nil {
		return nil, err
	}
	if draft.Status == "" {
		draft.Status = api.WorkflowStatusACTIVE
	}
	err = db.New().WorkflowInsert(ctx, tx, db.WorkflowInsertParams{
		WorkspaceID: workspaceID, ID: id, Name: draft.Name, Description: draft.Description, Status: string(draft.Status),
	})
	if err != nil {
		return nil, fmt.Errorf("insert workflow: %w", err)
	}
	v := version{workspaceID: workspaceID, workflowID: id, number: 1, name: draft.Name, description: draft.Description}
	if err := s.keepTx(ctx, tx, v, saved); err != nil {
		return nil, err
	}
	return saved.warnings, tell(ctx, tx, v, "created", map[string]any{"name": draft.Name})
}

// Get is a workflow as one of its versions has it, the present one for nil. NOT_FOUND
// for an unknown id and for another workspace's alike.
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

// read is a version of a workflow as it is stored, the present one for nil.
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
		return fault.New(fault.NotFound, "There is no workflow with this id that has this version.")
	}
	return fault.New(fault.NotFound, "There is no workflow with this id.")
}

// ListParams is a page of a list (decisions 1.5).
type ListParams struct {
	Limit  int                // 1..100
	Cursor string             // of the page before; empty for the first
	Status api.WorkflowStatus // "": all that are not archived
}

// List is the workspace's workflows, newest first. INVALID_INPUT for a cursor that no
// page gave out.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p ListParams) (api.WorkflowPage, error) {
	page := api.WorkflowPage{Data: []api.WorkflowSummary{}}
	before, err := cursor.Before(p.Cursor)
	if err != nil {
		return page, err
	}
	query := db.WorkflowListParams{WorkspaceID: workspaceID, Before: before, MaxRows: int32(p.Limit) + 1}
	if p.Status != "" {
		query.Status = new(string(p.Status))
	}
	rows, err := db.New().WorkflowList(ctx, s.db, query)
	if err != nil {
		return page, fmt.Errorf("list workflows: %w", err)
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		page.HasMore = true
		page.NextCursor = cursor.Encode(rows[p.Limit-1].ID[:])
	}
	for _, row := range rows {
		page.Data = append(page.Data, api.WorkflowSummary{
			ID: row.ID, Name: row.Name, Description: row.Description, Status: api.WorkflowStatus(row.Status), Version: row.Version,
			CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
		})
	}
	return page, nil
}

// tell writes into the audit log what became of a workflow, with the deed.
func tell(ctx context.Context, tx pgx.Tx, v version, what string, details map[string]any) error {
	details["version"] = v.number
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: v.workspaceID, Action: "workflow." + what, SubjectKind: "workflow", SubjectID: v.workflowID.String(), Details: details,
	})
}
