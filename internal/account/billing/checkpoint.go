package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// AuditStale is the age at which the last complete audit is overdue. Audits run every hour.
const AuditStale = 2 * time.Hour

const (
	// checkpointMost bounds the postings of a checkpoint, and thereby the duration of a snapshot.
	checkpointMost = 200_000
	// checkpointMargin is the minimum age of postings in a checkpoint. PostgreSQL generates an
	// ID before its transaction commits. So a lower ID can still appear while a transaction is
	// open, or after PostgreSQL's clock was set back.
	checkpointMargin = 10 * time.Minute
)

// inspection is one audit of the books of one workspace.
type inspection struct {
	conn      postgres.DB
	workspace uuid.UUID
	full      bool          // verifies every checkpoint instead of only the one that is due
	within    time.Duration // timeout of each statement
}

// run makes checkpoints of old postings, verifies earlier checkpoints, and audits the
// account and the rows after the last checkpoint.
func (a inspection) run(ctx context.Context) (drifts []Drift, err error) {
	earlier, err := db.New().CheckpointList(ctx, a.conn, a.workspace)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints of workspace %s: %w", a.workspace, err)
	}
	for _, check := range []func(context.Context) ([]Drift, error){
		a.advance,
		func(ctx context.Context) ([]Drift, error) { return a.verify(ctx, a.due(earlier)) },
		a.tail,
	} {
		found, err := check(ctx)
		if err != nil {
			return nil, fmt.Errorf("audit the credits of workspace %s: %w", a.workspace, err)
		}
		drifts = append(drifts, found...)
	}
	return drifts, nil
}

// snapshot calls fn in a read-only transaction that sees one snapshot of the database.
func (a inspection) snapshot(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, a.conn, func(tx pgx.Tx) error {
		// An audit reads many rows of a workspace, so it needs a longer timeout.
		_, err := tx.Exec(ctx, fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = %d", a.within.Milliseconds()))
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

// advance makes checkpoints up to the margin and audits the rows that they cover.
func (a inspection) advance(ctx context.Context) (drifts []Drift, err error) {
	for {
		list, err := db.New().CheckpointList(ctx, a.conn, a.workspace)
		if err != nil {
			return drifts, err
		}
		var last db.CreditCheckpoint
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		upto, err := db.New().CheckpointNext(ctx, a.conn, db.CheckpointNextParams{
			WorkspaceID: a.workspace, After: last.Upto, Margin: checkpointMargin, MaxRows: checkpointMost,
		})
		if postgres.NotFound(err) {
			return drifts, nil
		}
		if err != nil {
			return drifts, err
		}
		var sum db.CheckpointSumRow
		err = a.snapshot(ctx, func(tx pgx.Tx) (err error) {
			if sum, err = db.New().CheckpointSum(ctx, tx, db.CheckpointSumParams{WorkspaceID: a.workspace, After: last.Upto, Upto: upto}); err != nil {
				return err
			}
			found, err := a.rows(ctx, tx, last.Upto, upto)
			drifts = append(drifts, found...)
			return err
		})
		if err != nil {
			return drifts, err
		}
		if err := a.keep(ctx, last, sum, upto); err != nil {
			return drifts, err
		}
	}
}

// keep stores the sums of the postings after the last checkpoint, by extending it or in a new one.
func (a inspection) keep(ctx context.Context, last db.CreditCheckpoint, sum db.CheckpointSumRow, upto uuid.UUID) error {
	if last.Postings > 0 && last.Postings+sum.Postings <= checkpointMost {
		return db.New().CheckpointExtend(ctx, a.conn, db.CheckpointExtendParams{
			WorkspaceID: a.workspace, After: last.After, OldUpto: last.Upto, Upto: upto, Postings: sum.Postings, Plan: sum.Plan, Paid: sum.Paid,
			Month: sum.Month, PlanUsed: sum.PlanUsed, AllowanceUsed: sum.AllowanceUsed, Checksum: sum.Checksum,
		})
	}
	return db.New().CheckpointInsert(ctx, a.conn, db.CheckpointInsertParams{
		WorkspaceID: a.workspace, After: last.Upto, Upto: upto, Postings: sum.Postings, Plan: sum.Plan, Paid: sum.Paid,
		Month: sum.Month, PlanUsed: sum.PlanUsed, AllowanceUsed: sum.AllowanceUsed, Checksum: sum.Checksum,
	})
}

// due returns the checkpoints to verify: all of them, or only the checkpoint that was verified
// longest ago.
func (a inspection) due(list []db.CreditCheckpoint) []db.CreditCheckpoint {
	if a.full || len(list) == 0 {
		return list
	}
	return []db.CreditCheckpoint{slices.MinFunc(list, func(x, y db.CreditCheckpoint) int { return x.VerifiedAt.Compare(y.VerifiedAt) })}
}

// verify compares the postings of checkpoints with their sums, and audits the rows that
// they cover.
func (a inspection) verify(ctx context.Context, list []db.CreditCheckpoint) (drifts []Drift, err error) {
	for _, c := range list {
		var sum db.CheckpointSumRow
		err := a.snapshot(ctx, func(tx pgx.Tx) (err error) {
			if sum, err = db.New().CheckpointSum(ctx, tx, db.CheckpointSumParams{WorkspaceID: c.WorkspaceID, After: c.After, Upto: c.Upto}); err != nil {
				return err
			}
			found, err := a.rows(ctx, tx, c.After, c.Upto)
			drifts = append(drifts, found...)
			return err
		})
		if err != nil {
			return drifts, err
		}
		stored := db.CheckpointSumRow{
			Postings: c.Postings, Plan: c.Plan, Paid: c.Paid, Month: c.Month, PlanUsed: c.PlanUsed, AllowanceUsed: c.AllowanceUsed, Checksum: c.Checksum,
		}
		if sum != stored {
			drifts = append(drifts, Drift{
				WorkspaceID: c.WorkspaceID, Row: fmt.Sprintf("postings after %s up to %s", c.After, c.Upto),
				Problem: fmt.Sprintf("changed since their checkpoint of %s: now %d postings with %s plan and %s paid credits, checksum %s; the checkpoint has %d with %s and %s, checksum %s",
					c.MadeAt.UTC().Format(time.DateTime), sum.Postings, credit.Amount(sum.Plan), credit.Amount(sum.Paid), sum.Checksum,
					stored.Postings, credit.Amount(stored.Plan), credit.Amount(stored.Paid), stored.Checksum),
			})
			continue
		}
		if err := db.New().CheckpointSetVerified(ctx, a.conn, db.CheckpointSetVerifiedParams{WorkspaceID: c.WorkspaceID, After: c.After, Upto: c.Upto}); err != nil {
			return drifts, err
		}
	}
	return drifts, nil
}

// lastID is greater than every other ID.
var lastID = uuid.Max

// tail audits the account and the rows after the last checkpoint, in one snapshot.
func (a inspection) tail(ctx context.Context) (drifts []Drift, err error) {
	err = a.snapshot(ctx, func(tx pgx.Tx) error {
		list, err := db.New().CheckpointList(ctx, tx, a.workspace)
		if err != nil {
			return err
		}
		var after uuid.UUID
		if len(list) > 0 {
			after = list[len(list)-1].Upto
		}
		accounts, err := db.New().AccountAudit(ctx, tx, db.AccountAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after})
		if err != nil {
			return err
		}
		for _, row := range accounts {
			drifts = append(drifts, accountDrift(row)...)
		}
		found, err := a.rows(ctx, tx, after, lastID)
		drifts = append(drifts, found...)
		return err
	})
	return drifts, err
}

// RenewCheckpoints deletes the checkpoints of a workspace. The next audit computes them
// again from the postings.
func RenewCheckpoints(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) error {
	if err := db.New().CheckpointDelete(ctx, conn, workspaceID); err != nil {
		return fmt.Errorf("delete the checkpoints of workspace %s: %w", workspaceID, err)
	}
	return nil
}
