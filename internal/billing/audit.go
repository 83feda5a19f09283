package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/credit"
	"github.com/weft-automation/weft/internal/postgres"
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

	// auditWithin is how long each of the questions about one of all workspaces may
	// take: meanwhile its snapshot keeps from vacuum what becomes dead anywhere. A
	// workspace that is asked for alone has longer.
	auditWithin      = time.Minute
	auditAloneWithin = 30 * time.Minute
)

// Audit proves the books of one workspace, or of all for the zero id: an account
// is the sum of its postings, what it keeps back and counts is that of its live
// executions and runs, each final execution and run that is still stored was charged
// what it used, a run what its stages used and a stage by itself nothing, and the
// entries of a posting sum to zero. It returns the rows that break this and
// how many workspaces it looked at. It disturbs nobody. With the error that some
// workspaces could not be looked at comes what was found in the others.
func Audit(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID) (broken []Drift, workspaces int, err error) {
	if workspaceID != uuid.Nil {
		broken, err = auditOne(ctx, conn, workspaceID, auditAloneWithin)
		return broken, 1, err
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
			found, err := auditOne(ctx, conn, id, auditWithin)
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
	if failed > 0 {
		return broken, workspaces, fmt.Errorf("%d of %d workspaces were not audited; the first: %w", failed, failed+workspaces, first)
	}
	return broken, workspaces, nil
}

// auditOne looks at one workspace, in one snapshot of its rows.
func auditOne(ctx context.Context, conn postgres.DB, id uuid.UUID, within time.Duration) (broken []Drift, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Unlike all else it walks all rows of a workspace, for as long as that takes.
		_, err := tx.Exec(ctx, fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL statement_timeout = %d", within.Milliseconds()))
		if err != nil {
			return err
		}
		for _, look := range []func(context.Context, pgx.Tx, []uuid.UUID) ([]Drift, error){
			auditAccounts, auditExecutions, auditRuns, auditPostings,
		} {
			found, err := look(ctx, tx, []uuid.UUID{id})
			if err != nil {
				return err
			}
			broken = append(broken, found...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("audit the credits of workspace %s: %w", id, err)
	}
	return broken, nil
}

func auditAccounts(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().AccountAudit(ctx, tx, ids)
	for _, row := range rows {
		broken = append(broken, accountDrift(row)...)
	}
	return broken, err
}

func auditExecutions(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().ExecutionAudit(ctx, tx, db.ExecutionAuditParams{WorkspaceIds: ids, MaxRows: auditMost})
	for _, row := range rows {
		problem := fmt.Sprintf("is %s, used %s and %s", row.Status, row.Usage, charged(row.Posted))
		if row.Stage {
			problem = "is a stage of a run and " + charged(row.Posted)
		}
		broken = append(broken, Drift{WorkspaceID: row.WorkspaceID, Row: "execution " + row.ID.String(), Problem: problem})
	}
	return broken, err
}

func auditRuns(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().RunAudit(ctx, tx, db.RunAuditParams{WorkspaceIds: ids, MaxRows: auditMost})
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

func auditPostings(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (broken []Drift, err error) {
	rows, err := db.New().PostingAudit(ctx, tx, db.PostingAuditParams{WorkspaceIds: ids, MaxRows: auditMost})
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
