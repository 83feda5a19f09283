package server

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func (o *operations) ListLedger(ctx context.Context, request api.ListLedgerRequestObject) (api.ListLedgerResponseObject, error) {
	return o.ledger.ListLedger(ctx, request)
}

// reading is a database that delays or fails reads, as a test wants.
type reading struct {
	postgres.DB

	reads  int
	before func(ctx context.Context, read int) error
}

func (d *reading) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	d.reads++
	if err := d.before(ctx, d.reads); err != nil {
		return nil, err
	}
	return d.DB.Query(ctx, sql, args...)
}

// statement requests a statement of three parts as a file, over real HTTP.
func statement(t *testing.T, before func(ctx context.Context, read int) error) (lines [][]string, err error) {
	t.Helper()
	pool := pgtest.DB(t)
	_, err = pool.Exec(t.Context(), `INSERT INTO credit_postings (workspace_id, id, kind, reference, paid, granted)
		SELECT $1, least_id(now() + n * interval '1 ms'), 'GRANT', n::text, 1, -1 FROM generate_series(1, 1200) n`, executionID)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(s *service, _ *http.Server) {
		s.front.timeouts.handler = 500 * time.Millisecond
		s.front.find = func(context.Context, person.Proof) (person.Member, error) {
			return person.Member{WorkspaceID: uuid.MustParse(executionID), Role: person.Viewer}, nil
		}
		s.operations.ledger = &Server{Deps: Deps{Credits: billing.Reader{DB: &reading{DB: pool, before: before}}}}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/workspaces/"+executionID+"/ledger", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Accept": {"text/csv"}, "Authorization": {"Bearer x"}}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", answer.Status, text)
	}
	if err != nil {
		return nil, err
	}
	return csv.NewReader(strings.NewReader(string(text))).ReadAll()
}

func TestStatementOutlastsHandlerTimeout(t *testing.T) {
	t.Parallel()
	var handler context.Context
	lines, err := statement(t, func(ctx context.Context, read int) error {
		if read == 1 {
			handler = ctx
			return nil
		}
		<-handler.Done()
		return nil
	})
	if err != nil || len(lines) != 1201 {
		t.Errorf("got %d lines, want 1201, and %v", len(lines), err)
	}
}

func TestFailedStatementAbortsConnection(t *testing.T) {
	t.Parallel()
	lines, err := statement(t, func(_ context.Context, read int) error {
		if read == 3 {
			return errors.New("the database is gone")
		}
		return nil
	})
	if err == nil {
		t.Errorf("an incomplete response of %d lines, not 1201, has a regular end", len(lines))
	}
}
