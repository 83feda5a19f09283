package workspace

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Service reads workspaces for their members.
type Service struct {
	system postgres.DB // sees all workspaces
	scoped postgres.DB // works within the workspace of postgres.Scope
}

// NewService returns a Service. The connection system has the role postgres.System, and scoped has
// postgres.API.
func NewService(system, scoped postgres.DB) *Service { return &Service{system: system, scoped: scoped} }

// Get returns the record of a workspace for a member with the given role. It returns NOT_FOUND if
// the workspace doesn't exist.
func (s *Service) Get(ctx context.Context, id uuid.UUID, role string) (api.Workspace, error) {
	row, err := db.New().WorkspaceGet(ctx, s.scoped, id)
	if postgres.NotFound(err) {
		return api.Workspace{}, fault.New(fault.NotFound, "There is no workspace with this ID.")
	}
	if err != nil {
		return api.Workspace{}, fmt.Errorf("read workspace: %w", err)
	}
	return record(row, role), nil
}

// OfKey returns the name of a workspace and the label of one of its keys.
func (s *Service) OfKey(ctx context.Context, id, keyID uuid.UUID) (name, label string, err error) {
	row, err := db.New().WorkspaceGetOfKey(ctx, s.scoped, db.WorkspaceGetOfKeyParams{ID: id, KeyID: keyID})
	if err != nil {
		return "", "", fmt.Errorf("read the workspace of a key: %w", err)
	}
	return row.Name, row.Label, nil
}

// ListOf returns one page of the workspaces of a person, newest first. It returns INVALID_INPUT
// for an invalid cursor.
func (s *Service) ListOf(ctx context.Context, userID uuid.UUID, limit int, after string) (page api.WorkspacePage, err error) {
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("workspaces", limit, after, func(before uuid.UUID, maxRows int32) ([]db.WorkspaceListOfUserRow, error) {
		return db.New().WorkspaceListOfUser(ctx, s.system, db.WorkspaceListOfUserParams{UserID: userID, Before: before, MaxRows: maxRows})
	}, func(row db.WorkspaceListOfUserRow) (uuid.UUID, api.Workspace, error) {
		return row.ID, record(db.WorkspaceGetRow{
			ID: row.ID, Name: row.Name, Plan: row.Plan, CustomRps: row.CustomRps, CustomRph: row.CustomRph,
			CustomWaits: row.CustomWaits, CustomStreams: row.CustomStreams, CustomCredits: row.CustomCredits, CustomUsageLimit: row.CustomUsageLimit, CustomStorage: row.CustomStorage, CreatedAt: row.CreatedAt,
		}, row.Role), nil
	})
	return page, err
}

// Terms returns the plan and the terms of a workspace. The connection must see the workspace. It
// returns an error for an unknown workspace.
func Terms(ctx context.Context, conn postgres.DB, id uuid.UUID) (plan.Name, plan.Terms, error) {
	row, err := db.New().WorkspaceGet(ctx, conn, id)
	if err != nil {
		return "", plan.Terms{}, fmt.Errorf("read the terms of a workspace: %w", err)
	}
	return plan.Name(row.Plan), terms(row), nil
}

// terms returns the terms of the plan, with the custom terms of the workspace.
func terms(row db.WorkspaceGetRow) plan.Terms {
	t := plan.Name(row.Plan).Terms()
	if row.CustomRps != nil {
		t.RPS = int(*row.CustomRps)
	}
	if row.CustomRph != nil {
		t.RPH = int(*row.CustomRph)
	}
	if row.CustomWaits != nil {
		t.Waits = int(*row.CustomWaits)
	}
	if row.CustomStreams != nil {
		t.Streams = int(*row.CustomStreams)
	}
	if row.CustomCredits != nil {
		t.Monthly = *row.CustomCredits
	}
	if row.CustomUsageLimit != nil {
		t.UsageLimit = *row.CustomUsageLimit
	}
	if row.CustomStorage != nil {
		t.Storage = *row.CustomStorage
	}
	return t
}

func record(row db.WorkspaceGetRow, role string) api.Workspace {
	t := terms(row)
	limits := api.WorkspaceLimits{
		RequestsPerSecond: limited(t.RPS), RequestsPerHour: limited(t.RPH), InlineWaits: limited(t.Waits), Streams: limited(t.Streams), StorageBytes: storageLimit(t.Storage),
		MonthlyCredits: t.Monthly, UsageLimit: &t.UsageLimit,
	}
	return api.Workspace{
		ID: row.ID, Name: row.Name, Plan: api.Plan(row.Plan), Role: api.Role(role), Limits: limits, CreatedAt: timestamp.Of(row.CreatedAt),
	}
}

// storageLimit converts a storage limit to its API representation: None becomes null.
func storageLimit(bytes int64) *int64 {
	if bytes == plan.None {
		return nil
	}
	return &bytes
}

// limited converts a limit to its API representation: None becomes null.
func limited(n int) *int32 {
	if n == plan.None {
		return nil
	}
	return new(int32(n))
}
