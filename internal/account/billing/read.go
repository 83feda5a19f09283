package billing

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Reader returns the credits of workspaces. Its connection works within the workspace
// of postgres.Scope.
type Reader struct {
	Books Books
	DB    postgres.DB
}

// Credits returns the credits of a workspace, after releasing the plan credits that are due.
func (r Reader) Credits(ctx context.Context, workspaceID uuid.UUID) (api.Credits, error) {
	p := db.AccountGetParams{WorkspaceID: workspaceID, At: r.Books.at()}
	row, err := db.New().AccountGet(ctx, r.DB, p)
	if err == nil && !row.CreditAccount.ValidUntil.After(row.At) {
		if err = r.Books.Renew(ctx, r.DB, workspaceID); err == nil {
			row, err = db.New().AccountGet(ctx, r.DB, p)
		}
	}
	if err != nil {
		return api.Credits{}, fmt.Errorf("read account: %w", err)
	}
	a := row.CreditAccount
	var limit *int64
	if a.StorageLimit != plan.None {
		limit = &a.StorageLimit
	}
	return api.Credits{
		StoredBytes: a.Stored, StorageLimit: limit,
		Plan: api.Plan(row.PlanName), MonthlyCredits: a.Monthly, UsageLimit: &a.UsageLimit,
		PlanCredits: a.Plan, PaidCredits: a.Paid, ReservedCredits: a.Reserved, AvailableCredits: max(0, a.Plan+a.Paid-a.Reserved),
		UsedThisMonth: a.PlanUsed + a.AllowanceUsed, MonthStartsAt: timestamp.Of(a.Month),
		NextReleaseAt: timestamp.Of(a.ValidUntil), NextResetAt: timestamp.Of(a.Month.AddDate(0, 1, 0)),
	}, nil
}

// Statement selects the postings of whole days, in UTC. A nil day means no bound on that side.
type Statement struct {
	WorkspaceID uuid.UUID
	From, To    *time.Time // To is the last day
}

// The range of days that postings can have: UUIDv7 starts in 1970, and dates end in 9999.
var (
	firstDay = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	lastDay  = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// CheckDays returns INVALID_INPUT if the first day of a statement is after its last day.
func CheckDays(from, to *time.Time) error {
	if from == nil || to == nil || !from.After(*to) {
		return nil
	}
	const message = "must not be after to"
	return &fault.Error{
		Code: fault.InvalidInput, Message: "/query/from: " + message,
		Details: []fault.Detail{{Code: string(fault.InvalidInput), Message: message, Pointer: "/query/from"}},
	}
}

func (s Statement) params(before uuid.UUID, rows int) db.PostingListParams {
	p := db.PostingListParams{WorkspaceID: s.WorkspaceID, Before: before, Since: firstDay, Until: lastDay, MaxRows: int32(rows)}
	if s.From != nil && s.From.After(firstDay) {
		p.Since = *s.From
	}
	if s.To == nil {
		return p
	}
	if until := s.To.AddDate(0, 0, 1); until.Before(firstDay) {
		p.Until = firstDay
	} else if until.Before(lastDay) {
		p.Until = until
	}
	return p
}

// Page returns one page of a statement, newest first. It returns INVALID_INPUT for an
// invalid cursor, and if From is after To.
func (r Reader) Page(ctx context.Context, s Statement, limit int, after string) (page api.LedgerPage, err error) {
	if err := CheckDays(s.From, s.To); err != nil {
		return page, err
	}
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("postings", limit, after, func(before uuid.UUID, maxRows int32) ([]db.CreditPosting, error) {
		return db.New().PostingList(ctx, r.DB, s.params(before, int(maxRows)))
	}, func(row db.CreditPosting) (uuid.UUID, api.LedgerPosting, error) { return row.ID, line(row), nil })
	return page, err
}

// line converts a posting to its API representation.
func line(row db.CreditPosting) api.LedgerPosting {
	p := api.LedgerPosting{
		ID: row.ID, Kind: api.LedgerKind(row.Kind), PlanCredits: row.Plan, PaidCredits: row.Paid,
		Allowance: -row.Allowance, Usage: row.Usage, Note: row.Note, CreatedAt: timestamp.Of(row.CreatedAt),
	}
	about, err := uuid.Parse(row.Reference)
	switch {
	case row.Kind == "EXECUTION" && err == nil:
		p.ExecutionID = &about
	case row.Kind == "RUN" && err == nil:
		p.RunID = &about
	default:
		p.Reference = &row.Reference
	}
	return p
}

var columns = []string{"id", "kind", "executionId", "runId", "reference", "planCredits", "paidCredits", "allowance", "usage", "note", "createdAt"}

// csvPage is the number of postings that are read at once for a CSV file.
const csvPage = 500

// File is a whole statement as CSV, newest first. The file is read in parts; opening it reads
// the first part.
type File struct {
	reader    Reader
	statement Statement
	rows      []db.CreditPosting
}

// File opens a statement as CSV. It returns INVALID_INPUT if From is after To.
func (r Reader) File(ctx context.Context, s Statement) (*File, error) {
	if err := CheckDays(s.From, s.To); err != nil {
		return nil, err
	}
	f := &File{reader: r, statement: s}
	return f, f.read(ctx, uuid.Max)
}

func (f *File) read(ctx context.Context, before uuid.UUID) (err error) {
	f.rows, err = db.New().PostingList(ctx, f.reader.DB, f.statement.params(before, csvPage))
	if err != nil {
		return fmt.Errorf("list postings: %w", err)
	}
	return nil
}

// Write writes the file. It calls onPart before each part of the file. After an error the file is
// incomplete.
func (f *File) Write(ctx context.Context, w io.Writer, onPart func()) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(columns); err != nil {
		return err
	}
	for {
		onPart()
		for _, row := range f.rows {
			if err := out.Write(cells(line(row))); err != nil {
				return err
			}
		}
		out.Flush()
		if err := out.Error(); err != nil || len(f.rows) < csvPage {
			return err
		}
		if err := f.read(ctx, f.rows[len(f.rows)-1].ID); err != nil {
			return err
		}
	}
}

func cells(p api.LedgerPosting) []string {
	id := func(id *uuid.UUID) string {
		if id == nil {
			return ""
		}
		return id.String()
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		if *s != "" && strings.ContainsRune("=+-@\t\r\n", rune((*s)[0])) {
			return "'" + *s // otherwise a spreadsheet would evaluate it as a formula
		}
		return *s
	}
	amount := credit.Amount.String
	return []string{
		p.ID.String(), string(p.Kind), id(p.ExecutionID), id(p.RunID), text(p.Reference), amount(p.PlanCredits), amount(p.PaidCredits),
		amount(p.Allowance), amount(p.Usage), text(p.Note), p.CreatedAt.String(),
	}
}
