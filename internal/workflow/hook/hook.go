// Package hook starts runs when other services deliver events: it manages the hooks of workflows
// and verifies the deliveries to them (decisions 8.15).
//
// The package does not depend on HTTP routes or on how a run advances. Invariant: a delivery is
// not used or stored before its signature is verified over the bytes as received, and one delivery
// starts one run. A hook records that a delivery failed verification, but nothing that it sent.
package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// trigger is the trigger of runs that hooks start.
const trigger = "WEBHOOK"

// Deps holds what the service depends on.
type Deps struct {
	API     *pgxpool.Pool // sees only the workspace of postgres.Scope
	Turns   *permit.Turns // of API; nil: no limit
	System  *pgxpool.Pool // finds the workspace of a hook
	Runs    *run.Service
	Keyring *seal.Keyring
	Log     *slog.Logger
}

// Service manages hooks and receives their deliveries.
type Service struct {
	Deps
	failures *throttle.Limiter[netip.Addr]
	refusals *throttle.Limiter[refusal]
}

// refusal identifies a kind of rejected delivery.
type refusal struct {
	hook   uuid.UUID
	reason string
}

// Limits of failed deliveries from one client address: a burst, then a rate per second. They equal
// the limits of failed request signatures.
const failureBurst, failureRate = 1000, 100

// refusalRate is how many rejections per second a hook records for each reason that a stranger or a
// flood of deliveries can cause. See recordRefusal.
const refusalRate = 0.1

// NewService returns a Service.
func NewService(deps Deps) *Service {
	return &Service{
		Deps:     deps,
		failures: throttle.NewLimiter[netip.Addr](failureBurst, failureRate, time.Now),
		refusals: throttle.NewLimiter[refusal](1, refusalRate, time.Now),
	}
}

// SealedAt returns the place that the sealed secret of a hook is bound to.
func SealedAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "hooks", Row: id.String(), Field: "sealed"}
}

// PreviousAt returns the place that the sealed previous secret of a hook is bound to.
func PreviousAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "hooks", Row: id.String(), Field: "sealed_previous"}
}

// TokenAt returns the place that the sealed verify token of a hook is bound to.
func TokenAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "hooks", Row: id.String(), Field: "sealed_token"}
}

func callbackPlace(key notify.Key) vault.Place {
	return vault.Place{WorkspaceID: key.WorkspaceID, Row: key.ID, Field: vault.HookCallback}
}

// read returns a hook. It returns NOT_FOUND if the ID is unknown or belongs to another workspace.
func (s *Service) read(ctx context.Context, conn postgres.DB, key notify.Key) (api.Hook, error) {
	row, err := db.New().HookGet(ctx, conn, db.HookGetParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return api.Hook{}, errNotFound
	}
	if err != nil {
		return api.Hook{}, fmt.Errorf("read hook: %w", err)
	}
	return apiRecord(row)
}

var errNotFound = fault.New(fault.NotFound, "There is no hook with this ID.")

// Get returns a hook. It returns NOT_FOUND, or FORBIDDEN if the key may not use the hook's
// workflow.
func (s *Service) Get(ctx context.Context, key notify.Key, access run.Access) (api.Hook, error) {
	shown, err := s.read(ctx, s.API, key)
	if err == nil && !access.MayUse(shown.WorkflowID) {
		return api.Hook{}, run.ErrOtherWorkflow
	}
	return shown, err
}

// List returns a page of the workspace's hooks, newest first. It returns INVALID_INPUT for an
// invalid cursor.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p run.ListParams) (page api.HookPage, err error) {
	var allowed []uuid.UUID // nil: any workflow
	if len(p.Allowed) > 0 {
		allowed = p.Allowed
	}
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("hooks", p.Limit, p.Cursor, func(before uuid.UUID, maxRows int32) ([]db.HookListRow, error) {
		return db.New().HookList(ctx, s.API, db.HookListParams{WorkspaceID: workspaceID, Before: before, WorkflowID: p.WorkflowID, Allowed: allowed, MaxRows: maxRows})
	}, func(row db.HookListRow) (uuid.UUID, api.Hook, error) {
		shown, err := apiRecord(db.HookGetRow(row))
		return row.ID, shown, err
	})
	return page, err
}

// apiRecord returns a hook in the form of the API.
func apiRecord(row db.HookGetRow) (shown api.Hook, err error) {
	shown = api.Hook{
		ID: row.ID, WorkflowID: row.WorkflowID, Name: row.Name, Status: api.TriggerStatus(row.Status), Path: "/v1/hooks/" + row.ID.String(),
		Headers: row.Headers, Respond: whenTrue(row.Respond), DeadlineMs: row.DeadlineMs,
		LastAt: timestamp.OfPointer(row.LastAt), LastRunID: row.LastRunID,
		LastRefusedAt: timestamp.OfPointer(row.LastRefusedAt), LastRefusal: row.LastRefusal, RefusalCount: row.RefusalCount,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
	}
	if err := json.Unmarshal(row.Verification, &shown.Verification); err != nil {
		return shown, fmt.Errorf("decode the hook's verification settings: %w", err)
	}
	shown.Verification.HasPreviousSecret, shown.Verification.HasVerifyToken = whenTrue(row.HasPrevious), whenTrue(row.HasToken)
	if err := json.Unmarshal(row.Refusals, &shown.Refusals); err != nil {
		return shown, fmt.Errorf("decode the rejections of a hook: %w", err)
	}
	shown.Callback, err = run.StoredCallback{Shown: row.Callback}.Record()
	return shown, err
}

// whenTrue returns the form of a field that is absent if it is false.
func whenTrue(set bool) *bool {
	if !set {
		return nil
	}
	return &set
}

// recordAudit adds a change of a hook to the audit log, in the transaction of the change.
func recordAudit(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, shown api.Hook, what string) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "hook." + what, SubjectKind: "hook", SubjectID: shown.ID.String(),
		Details: map[string]any{"name": shown.Name, "workflowId": shown.WorkflowID.String(), "scheme": shown.Verification.Scheme, "status": shown.Status},
	})
}
