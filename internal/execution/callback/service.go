package callback

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// States of a callback.
const (
	statePending = "PENDING" // the execution is not final
	stateQueued  = "QUEUED"  // to be delivered
)

// maxSecret bounds a callbackSecret, in bytes.
const maxSecret = 4096

// Service replays callbacks and lists their attempts. A Deliverer delivers them.
type Service struct {
	db   *pgxpool.Pool
	jobs *river.Client[pgx.Tx]
}

// NewService returns a Service. The Service uses jobs only to insert.
func NewService(pool *pgxpool.Pool, jobs *river.Client[pgx.Tx]) *Service {
	return &Service{db: pool, jobs: jobs}
}

// CheckSecret checks a submitted callbackSecret. It returns nil or a *fault.Error at
// /callbackSecret that does not show the secret.
func CheckSecret(secret string) error {
	if secret == "" || len(secret) > maxSecret {
		return fault.Invalid("/callbackSecret", "callbackSecret: must have 1 to %d bytes", maxSecret)
	}
	if err := signature.CheckSecret(secret); err != nil {
		return fault.Invalid("/callbackSecret", "callbackSecret: %s", err)
	}
	return nil
}

// Of names the execution or run that a callback belongs to.
type Of struct {
	WorkspaceID, ID uuid.UUID
	Run             bool
}

// kind returns what the callback belongs to, in words.
func (o Of) kind() string {
	if o.Run {
		return "run"
	}
	return "execution"
}

// Replay enqueues another delivery of a callback (contract 4.4), with a full schedule of attempts. If
// a retry is scheduled, the retry is sent now instead, as the next attempt of the same delivery. Replay
// changes nothing while an attempt is being sent. It also changes nothing after a successful delivery,
// unless force is true. The caller has checked that a run exists.
//
// Errors: NOT_FOUND, NO_CALLBACK, EXECUTION_NOT_FINISHED, and CONFLICT once the secrets that a
// delivery needs are erased.
func (s *Service) Replay(ctx context.Context, of Of, force bool) error {
	c, err := db.New().CallbackGet(ctx, s.db, db.CallbackGetParams{WorkspaceID: of.WorkspaceID, ExecutionID: of.ID})
	if postgres.NotFound(err) || err == nil && c.OfRun != of.Run {
		return s.missing(ctx, of)
	}
	if err != nil {
		return fmt.Errorf("read callback: %w", err)
	}
	if todo, err := replayable(c, force); !todo || err != nil {
		return err
	}
	err = postgres.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return s.replayTx(ctx, tx, of, force) })
	if err != nil && fault.CodeOf(err) == fault.Internal {
		return fmt.Errorf("replay callback: %w", err)
	}
	return err
}

// replayable reports whether a replay has anything to do. It returns an error if the callback
// cannot be replayed.
func replayable(c db.Callback, force bool) (bool, error) {
	erased := c.Sealed == nil && (c.Signed || len(c.HeaderNames) > 0)
	switch {
	case c.State == statePending:
		return false, fault.New(fault.ExecutionNotFinished, "The %s has not finished: its callback is delivered when it has.", Of{Run: c.OfRun}.kind())
	case c.State == stateQueued:
		return c.DueAt != nil, nil
	case c.DeliveredAt != nil && !force:
		return false, nil
	case erased:
		refusal := fault.New(fault.Conflict, "The secret and header values of this callback have been erased, so it can no longer be sent.")
		refusal.Reason = "callback_secret_erased"
		return false, refusal
	}
	return true, nil
}

// replayTx locks the callback, checks it again, and enqueues the delivery.
func (s *Service) replayTx(ctx context.Context, tx pgx.Tx, of Of, force bool) error {
	q := db.New()
	row, err := q.CallbackLock(ctx, tx, db.CallbackLockParams{WorkspaceID: of.WorkspaceID, ExecutionID: of.ID})
	if err != nil {
		return err
	}
	c := row.Callback
	if todo, err := replayable(c, force); !todo || err != nil {
		return err
	}
	if c.State == stateQueued && !row.Waits {
		return nil // an attempt is due or being sent
	}
	ids, err := enqueueManyTx(ctx, tx, s.jobs, []Args{{WorkspaceID: of.WorkspaceID, ExecutionID: of.ID}}, time.Time{})
	if err != nil {
		return err
	}
	if c.State == stateQueued {
		err = q.CallbackMakeDue(ctx, tx, db.CallbackMakeDueParams{WorkspaceID: of.WorkspaceID, ExecutionID: of.ID, JobID: &ids[0]})
	} else {
		err = q.CallbackReplay(ctx, tx, db.CallbackReplayParams{WorkspaceID: of.WorkspaceID, ExecutionID: of.ID, JobID: &ids[0]})
	}
	if err != nil {
		return err
	}
	return audit.RecordTx(ctx, tx, audit.Event{
		WorkspaceID: of.WorkspaceID, Action: "callback.replayed", SubjectKind: of.kind(), SubjectID: of.ID.String(),
		Details: map[string]any{"force": force},
	})
}

// missing returns NO_CALLBACK if the execution or run exists, and NOT_FOUND otherwise.
func (s *Service) missing(ctx context.Context, of Of) error {
	if of.Run {
		return fault.New(fault.NoCallback, "The run was started without a callbackUrl.")
	}
	if err := s.exists(ctx, of.WorkspaceID, of.ID); err != nil {
		return err
	}
	return fault.New(fault.NoCallback, "The execution was submitted without a callbackUrl.")
}

// exists returns NOT_FOUND if the workspace has no such execution.
func (s *Service) exists(ctx context.Context, workspaceID, executionID uuid.UUID) error {
	_, err := db.New().ExecutionGetState(ctx, s.db, db.ExecutionGetStateParams{WorkspaceID: workspaceID, ID: executionID})
	if postgres.NotFound(err) {
		return fault.New(fault.NotFound, "There is no execution with this ID.")
	}
	if err != nil {
		return fmt.Errorf("read execution: %w", err)
	}
	return nil
}

// Attempts returns a page of the log of attempts, newest first (decisions 5.8). It returns
// NOT_FOUND for an unknown execution and INVALID_INPUT for an invalid cursor. The caller has checked
// that a run exists.
func (s *Service) Attempts(ctx context.Context, of Of, limit int, after string) (api.CallbackAttemptPage, error) {
	page := api.CallbackAttemptPage{Data: []api.CallbackAttempt{}}
	before := int32(math.MaxInt32)
	if after != "" {
		raw, err := cursor.Decode(after, 4)
		if err != nil {
			return page, err
		}
		before = int32(binary.BigEndian.Uint32(raw))
	}
	if !of.Run {
		if err := s.exists(ctx, of.WorkspaceID, of.ID); err != nil {
			return page, err
		}
	}
	rows, err := db.New().CallbackAttemptList(ctx, s.db, db.CallbackAttemptListParams{
		WorkspaceID: of.WorkspaceID, ExecutionID: of.ID, Before: before, MaxRows: int32(limit) + 1,
	})
	if err != nil {
		return page, fmt.Errorf("list callback attempts: %w", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.HasMore = true
		last := binary.BigEndian.AppendUint32(nil, uint32(rows[limit-1].Attempt))
		page.NextCursor = cursor.Encode(last)
	}
	for _, row := range rows {
		page.Data = append(page.Data, present.CallbackAttempt(row))
	}
	return page, nil
}

// Exhausted is a callback that was never delivered and is not sent again.
type Exhausted struct {
	ExecutionID uuid.UUID // or the ID of the run
	OfRun       bool
	URL         string
	Attempts    int32
	LastAt      *time.Time
	LastError   json.RawMessage
}

// Exhausted returns the newest callbacks of a workspace that were never delivered and are not sent
// again.
func (s *Service) Exhausted(ctx context.Context, workspaceID uuid.UUID, limit int) (all []Exhausted, err error) {
	rows, err := db.New().CallbackListExhausted(ctx, s.db, db.CallbackListExhaustedParams{WorkspaceID: workspaceID, MaxRows: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("list exhausted callbacks: %w", err)
	}
	for _, row := range rows {
		all = append(all, Exhausted{ExecutionID: row.ExecutionID, OfRun: row.OfRun, URL: row.URL, Attempts: row.AttemptCount, LastAt: row.LastAttemptAt, LastError: row.LastError})
	}
	return all, nil
}
