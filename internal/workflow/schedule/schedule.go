// Package schedule starts runs on a cron schedule, in time zones (decisions 8.15).
//
// The package does not depend on HTTP or on how a run advances. The engine's sweep calls it when a
// schedule is due by the database's clock. Invariant: a schedule moves to its next time in the
// transaction that creates the run for the last time. So each time has either one run or a reason
// why it has no run.
package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/budget"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// trigger is the trigger of runs that schedules start.
const trigger = "SCHEDULE"

// Deps holds what the service depends on.
type Deps struct {
	API   *pgxpool.Pool // sees only the workspace of postgres.Scope
	Turns *permit.Turns // of API; nil: no limit
	Runs  *run.Service
	Vault *vault.Vault
	Log   *slog.Logger
}

// Service manages schedules and starts their runs.
type Service struct {
	Deps
	slots *budget.Turns[uuid.UUID] // limits concurrent schedules; no workspace takes all
	ctx   context.Context
	stop  context.CancelFunc

	mu       sync.Mutex
	inFlight map[notify.Key]bool
	closed   bool
	running  sync.WaitGroup
}

// NewService returns a Service. Close stops it.
func NewService(deps Deps) *Service {
	s := &Service{Deps: deps, slots: budget.NewTurns[uuid.UUID](maxConcurrent), inFlight: map[notify.Key]bool{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// read returns a schedule. It returns NOT_FOUND if the ID is unknown or belongs to another
// workspace.
func (s *Service) read(ctx context.Context, conn postgres.DB, key notify.Key) (api.Schedule, error) {
	row, err := db.New().ScheduleGet(ctx, conn, db.ScheduleGetParams{WorkspaceID: key.WorkspaceID, ID: key.ID})
	if postgres.NotFound(err) {
		return api.Schedule{}, errNotFound
	}
	if err != nil {
		return api.Schedule{}, fmt.Errorf("read schedule: %w", err)
	}
	shown, err := apiRecord(row)
	if err != nil {
		return shown, err
	}
	return shown, s.showSealed(ctx, key, row, &shown)
}

var errNotFound = fault.New(fault.NotFound, "There is no schedule with this ID.")

// Get returns a schedule. It returns NOT_FOUND, or FORBIDDEN if the key may not use the schedule's
// workflow.
func (s *Service) Get(ctx context.Context, key notify.Key, access run.Access) (api.Schedule, error) {
	shown, err := s.read(ctx, s.API, key)
	if err == nil && !access.MayUse(shown.WorkflowID) {
		return api.Schedule{}, run.ErrOtherWorkflow
	}
	return shown, err
}

// List returns a page of the workspace's schedules, newest first. It returns INVALID_INPUT for an
// invalid cursor.
func (s *Service) List(ctx context.Context, workspaceID uuid.UUID, p run.ListParams) (page api.SchedulePage, err error) {
	var allowed []uuid.UUID // nil: any workflow
	if len(p.Allowed) > 0 {
		allowed = p.Allowed
	}
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("schedules", p.Limit, p.Cursor, func(before uuid.UUID, maxRows int32) ([]db.ScheduleListRow, error) {
		return db.New().ScheduleList(ctx, s.API, db.ScheduleListParams{WorkspaceID: workspaceID, Before: before, WorkflowID: p.WorkflowID, Allowed: allowed, MaxRows: maxRows})
	}, func(row db.ScheduleListRow) (uuid.UUID, api.Schedule, error) {
		shown, err := apiRecord(db.ScheduleGetRow(row))
		return row.ID, shown, err
	})
	return page, err
}

// apiRecord returns a schedule in the form of the API, without its sealed values.
func apiRecord(row db.ScheduleGetRow) (shown api.Schedule, err error) {
	shown = api.Schedule{
		ID: row.ID, WorkflowID: row.WorkflowID, Name: row.Name, Cron: row.Cron, TimeZone: row.TimeZone, Overlap: api.Overlap(row.Overlap),
		Status: api.TriggerStatus(row.Status), DeadlineMs: row.DeadlineMs, NextAt: timestamp.OfPointer(row.NextAt), Waiting: make([]timestamp.Time, len(row.Waiting)),
		LastAt: timestamp.OfPointer(row.LastAt), LastRunID: row.LastRunID,
		LastSkippedAt: timestamp.OfPointer(row.LastSkippedAt), LastSkipReason: row.LastSkipReason,
		CreatedAt: timestamp.Of(row.CreatedAt), UpdatedAt: timestamp.Of(row.UpdatedAt),
	}
	for i, at := range row.Waiting {
		shown.Waiting[i] = timestamp.Of(at)
	}
	shown.LastClockChange, shown.NextClockChange = clockChanges(row)
	shown.Callback, err = run.StoredCallback{Shown: row.Callback}.Record()
	return shown, err
}

// recordAudit adds a change of a schedule to the audit log, in the transaction of the change.
func recordAudit(ctx context.Context, tx pgx.Tx, workspaceID uuid.UUID, shown api.Schedule, what string) error {
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: workspaceID, Action: "schedule." + what, SubjectKind: "schedule", SubjectID: shown.ID.String(),
		Details: map[string]any{
			"name": shown.Name, "workflowId": shown.WorkflowID.String(), "cron": shown.Cron, "timeZone": shown.TimeZone, "status": shown.Status,
		},
	})
}
