package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Drift is a row of the books that is wrong.
type Drift struct {
	WorkspaceID uuid.UUID
	Row         string // "account <workspace>", "execution <id>", "run <id>", "posting <id>"
	Problem     string

	counts bool // a counter is wrong, which moves no credits
}

func (d Drift) String() string {
	return fmt.Sprintf("workspace %s: %s %s", d.WorkspaceID, d.Row, d.Problem)
}

const (
	auditBatch = 100   // workspaces listed at once
	auditMost  = 1_000 // rows reported per workspace and table

	// auditWithin is the statement timeout for an audit of all workspaces. While a snapshot is
	// open, vacuum can't remove rows of any table that were deleted after the snapshot. An audit
	// of a single workspace has a longer timeout.
	auditWithin      = time.Minute
	auditAloneWithin = 30 * time.Minute
)

// Audit audits the books of one workspace, or of all workspaces for the zero ID. It returns the
// rows that are wrong and the number of audited workspaces. If some workspaces can't be audited,
// it returns an error along with the drifts of the others.
//
// It checks that an account is the sum of its postings; that the account's reservation and
// counters match the live executions and runs; that each stored final execution and run was
// charged for its usage (a run is charged for its stages, a stage is charged nothing); and that
// the entries of a posting sum to zero. It reads every posting, and makes and verifies
// checkpoints. It doesn't block other transactions.
func Audit(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) (drifts []Drift, workspaces int, err error) {
	if workspaceID != uuid.Nil {
		drifts, err = auditOne(ctx, conn, workspaceID)
		return drifts, 1, err
	}
	return auditAll(ctx, conn, true)
}

// AuditRecent audits all workspaces like Audit, but doesn't read every posting again. For
// postings up to the last checkpoint of a workspace, it uses the stored sums and verifies one
// checkpoint. Workspaces whose billing is stopped are audited in full.
func AuditRecent(ctx context.Context, conn postgres.DB) (drifts []Drift, workspaces int, err error) {
	return auditAll(ctx, conn, false)
}

func auditAll(ctx context.Context, conn postgres.DB, full bool) (drifts []Drift, workspaces int, err error) {
	started := time.Now()
	stopped, err := db.New().WorkspaceListStopped(ctx, conn)
	if err != nil {
		return nil, 0, fmt.Errorf("list workspaces whose books are stopped: %w", err)
	}
	var failed int
	var first error
	p := db.WorkspaceListIdsParams{MaxRows: auditBatch}
	for {
		ids, err := db.New().WorkspaceListIds(ctx, conn, p)
		if err != nil {
			return drifts, workspaces, fmt.Errorf("list workspaces: %w", err)
		}
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			found, err := inspection{conn: conn, workspace: id, full: full || slices.Contains(stopped, id), within: auditWithin}.run(ctx)
			switch {
			case err == nil:
				workspaces++
			case ctx.Err() != nil:
				return drifts, workspaces, err
			default:
				if failed++; first == nil {
					first = err
				}
			}
			drifts = append(drifts, found...)
		}
		p.After = ids[len(ids)-1]
	}
	err = db.New().InstallationRecordAudit(ctx, conn, db.InstallationRecordAuditParams{Complete: failed == 0, Took: time.Since(started), Faults: int32(len(drifts))})
	if err != nil {
		err = fmt.Errorf("record the audit: %w", err)
	}
	if failed > 0 {
		err = errors.Join(fmt.Errorf("%d of %d workspaces were not audited; the first failed with: %w", failed, failed+workspaces, first), err)
	}
	return drifts, workspaces, err
}

// auditOne audits one workspace in full, with the longer timeout.
func auditOne(ctx context.Context, conn postgres.DB, id uuid.UUID) (drifts []Drift, err error) {
	return inspection{conn: conn, workspace: id, full: true, within: auditAloneWithin}.run(ctx)
}

// rows audits the postings, executions and runs with after < id <= upto.
func (a inspection) rows(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (drifts []Drift, err error) {
	for _, check := range []func(context.Context, pgx.Tx, uuid.UUID, uuid.UUID) ([]Drift, error){a.executions, a.runs, a.postings} {
		found, err := check(ctx, tx, after, upto)
		if err != nil {
			return nil, err
		}
		drifts = append(drifts, found...)
	}
	return drifts, nil
}

func (a inspection) executions(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (drifts []Drift, err error) {
	rows, err := db.New().ExecutionAudit(ctx, tx, db.ExecutionAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after, Upto: upto, MaxRows: auditMost})
	for _, row := range rows {
		problem := fmt.Sprintf("is %s, used %s and %s", row.Status, row.Usage, charged(row.Posted))
		if row.Stage {
			problem = "is a stage of a run and " + charged(row.Posted)
		}
		drifts = append(drifts, Drift{WorkspaceID: row.WorkspaceID, Row: "execution " + row.ID.String(), Problem: problem})
	}
	return drifts, err
}

func (a inspection) runs(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (drifts []Drift, err error) {
	rows, err := db.New().RunAudit(ctx, tx, db.RunAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after, Upto: upto, MaxRows: auditMost})
	for _, row := range rows {
		drifts = append(drifts, Drift{
			WorkspaceID: row.WorkspaceID, Row: "run " + row.ID.String(),
			Problem: fmt.Sprintf("is %s, used %s, its stages used %s, and %s", row.Status, row.Usage, credit.Amount(row.Staged), charged(row.Posted)),
		})
	}
	return drifts, err
}

// charged describes the posted charge; -1 means that there is no posting.
func charged(posted int64) string {
	if posted < 0 {
		return "has no posting"
	}
	return fmt.Sprintf("was charged %s", credit.Amount(posted))
}

func (a inspection) postings(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (drifts []Drift, err error) {
	rows, err := db.New().PostingAudit(ctx, tx, db.PostingAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after, Upto: upto, MaxRows: auditMost})
	for _, row := range rows {
		about := map[string]string{ofExecution: "execution", ofRun: "run"}[row.Kind]
		problem := fmt.Sprintf("charges %s %s, which does not exist", about, row.Reference)
		if row.Rest != 0 {
			problem = fmt.Sprintf("(%s %s) has entries that sum to %s", row.Kind, row.Reference, credit.Amount(row.Rest))
		}
		drifts = append(drifts, Drift{WorkspaceID: row.WorkspaceID, Row: "posting " + row.ID.String(), Problem: problem})
	}
	return drifts, err
}

// accountDrift returns the differences between an account and its expected values.
func accountDrift(row db.AccountAuditRow) (drifts []Drift) {
	a := row.CreditAccount
	differ := func(problem string, has, should any) {
		if has != should {
			_, counts := has.(int64) // counters are int64, credits have their own type
			drifts = append(drifts, Drift{WorkspaceID: a.WorkspaceID, Row: "account " + a.WorkspaceID.String(), Problem: fmt.Sprintf(problem, has, should), counts: counts})
		}
	}
	differ("has %s plan credits, but its postings sum to %s", a.Plan, credit.Amount(row.PostedPlan))
	differ("has %s paid credits, but its postings sum to %s", a.Paid, credit.Amount(row.PostedPaid))
	differ("used %s of the month's plan credits, but its postings sum to %s", a.PlanUsed, credit.Amount(row.PostedPlanUsed))
	differ("used %s of the month's allowance, but its postings sum to %s", a.AllowanceUsed, credit.Amount(row.PostedAllowanceUsed))
	differ("reserves %s, but its live executions and runs need %s", a.Reserved, credit.Amount(row.LiveReserved))
	differ("counts %d live executions, but there are %d", int64(a.Live), row.LiveCount)
	differ("counts %d parked executions, but there are %d", int64(a.Parked), row.LiveParked)
	return drifts
}
