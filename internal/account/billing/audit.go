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

	counts bool // it is a count that is wrong, which moves no credits
}

func (d Drift) String() string {
	return fmt.Sprintf("workspace %s: %s %s", d.WorkspaceID, d.Row, d.Problem)
}

const (
	auditBatch = 100   // ids of workspaces read at once
	auditMost  = 1_000 // rows named of one workspace, of each table

	// auditWithin is how long each statement about one of all workspaces may take:
	// meanwhile its snapshot keeps from vacuum what becomes dead anywhere. A
	// workspace that is asked for alone has longer.
	auditWithin      = time.Minute
	auditAloneWithin = 30 * time.Minute
)

// Audit proves the books of one workspace, or of all for the zero id: an account
// is the sum of its postings, what it keeps back and counts is that of its live
// executions and runs, each final execution and run that is still stored was charged
// what it used, a run what its stages used and a stage by itself nothing, and the
// entries of a posting sum to zero. It reads every posting, and makes and verifies
// checkpoints as it goes. It returns the rows that break this and how many workspaces
// it audited. It disturbs nobody. With the error that some workspaces could not be
// audited comes what was found in the others.
func Audit(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) (broken []Drift, workspaces int, err error) {
	if workspaceID != uuid.Nil {
		broken, err = auditOne(ctx, conn, workspaceID)
		return broken, 1, err
	}
	return auditAll(ctx, conn, true)
}

// AuditRecent is Audit of all workspaces without reading every posting again: of those
// up to the last checkpoint of a workspace it takes the sums, and verifies one checkpoint
// of each. A workspace whose billing is stopped it audits in full.
func AuditRecent(ctx context.Context, conn postgres.DB) (broken []Drift, workspaces int, err error) {
	return auditAll(ctx, conn, false)
}

func auditAll(ctx context.Context, conn postgres.DB, full bool) (broken []Drift, workspaces int, err error) {
	began := time.Now()
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
			return broken, workspaces, fmt.Errorf("list workspaces: %w", err)
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
				return broken, workspaces, err
			default:
				if failed++; first == nil {
					first = err
				}
			}
			broken = append(broken, found...)
		}
		p.After = ids[len(ids)-1]
	}
	err = db.New().InstallationRecordAudit(ctx, conn, db.InstallationRecordAuditParams{Complete: failed == 0, Took: time.Since(began), Faults: int32(len(broken))})
	if err != nil {
		err = fmt.Errorf("note the audit: %w", err)
	}
	if failed > 0 {
		err = errors.Join(fmt.Errorf("%d of %d workspaces were not audited; the first: %w", failed, failed+workspaces, first), err)
	}
	return broken, workspaces, err
}

// auditOne audits one workspace in full, with more time.
func auditOne(ctx context.Context, conn postgres.DB, id uuid.UUID) (broken []Drift, err error) {
	return inspection{conn: conn, workspace: id, full: true, within: auditAloneWithin}.run(ctx)
}

// rows audits the postings, executions and runs with after < id <= upto.
func (a inspection) rows(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (broken []Drift, err error) {
	for _, look := range []func(context.Context, pgx.Tx, uuid.UUID, uuid.UUID) ([]Drift, error){a.executions, a.runs, a.postings} {
		found, err := look(ctx, tx, after, upto)
		if err != nil {
			return nil, err
		}
		broken = append(broken, found...)
	}
	return broken, nil
}

func (a inspection) executions(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().ExecutionAudit(ctx, tx, db.ExecutionAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after, Upto: upto, MaxRows: auditMost})
	for _, row := range rows {
		problem := fmt.Sprintf("is %s, used %s and %s", row.Status, row.Usage, charged(row.Posted))
		if row.Stage {
			problem = "is a stage of a run and " + charged(row.Posted)
		}
		broken = append(broken, Drift{WorkspaceID: row.WorkspaceID, Row: "execution " + row.ID.String(), Problem: problem})
	}
	return broken, err
}

func (a inspection) runs(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().RunAudit(ctx, tx, db.RunAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after, Upto: upto, MaxRows: auditMost})
	for _, row := range rows {
		broken = append(broken, Drift{
			WorkspaceID: row.WorkspaceID, Row: "run " + row.ID.String(),
			Problem: fmt.Sprintf("is %s, used %s, its stages %s, and %s", row.Status, row.Usage, credit.Amount(row.Staged), charged(row.Posted)),
		})
	}
	return broken, err
}

// charged words what was posted; -1 is nothing.
func charged(posted int64) string {
	if posted < 0 {
		return "has no posting"
	}
	return fmt.Sprintf("was charged %s", credit.Amount(posted))
}

func (a inspection) postings(ctx context.Context, tx pgx.Tx, after, upto uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().PostingAudit(ctx, tx, db.PostingAuditParams{WorkspaceIds: []uuid.UUID{a.workspace}, After: after, Upto: upto, MaxRows: auditMost})
	for _, row := range rows {
		about := map[string]string{ofExecution: "execution", ofRun: "run"}[row.Kind]
		problem := fmt.Sprintf("charges %s %s, which is not there", about, row.Reference)
		if row.Rest != 0 {
			problem = fmt.Sprintf("(%s %s) has entries that sum to %s", row.Kind, row.Reference, credit.Amount(row.Rest))
		}
		broken = append(broken, Drift{WorkspaceID: row.WorkspaceID, Row: "posting " + row.ID.String(), Problem: problem})
	}
	return broken, err
}

// accountDrift says in what an account differs from what it should be.
func accountDrift(row db.AccountAuditRow) (broken []Drift) {
	a := row.CreditAccount
	differ := func(problem string, has, should any) {
		if has != should {
			_, counts := has.(int64) // credits have a type of their own
			broken = append(broken, Drift{WorkspaceID: a.WorkspaceID, Row: "account " + a.WorkspaceID.String(), Problem: fmt.Sprintf(problem, has, should), counts: counts})
		}
	}
	differ("has %s plan credits, its postings sum to %s", a.Plan, credit.Amount(row.PostedPlan))
	differ("has %s paid credits, its postings sum to %s", a.Paid, credit.Amount(row.PostedPaid))
	differ("used %s of the month's plan credits, its postings say %s", a.PlanUsed, credit.Amount(row.PostedPlanUsed))
	differ("used %s of the month's allowance, its postings say %s", a.AllowanceUsed, credit.Amount(row.PostedAllowanceUsed))
	differ("keeps back %s, its live executions and runs need %s", a.Reserved, credit.Amount(row.LiveReserved))
	differ("counts %d live executions, there are %d", int64(a.Live), row.LiveCount)
	differ("counts %d parked executions, there are %d", int64(a.Parked), row.LiveParked)
	return broken
}
