// Package rotation replaces the master key while traffic runs: it tracks which processes use which
// key, and re-encrypts stored values.
//
// It does not know where keys are stored or what sealed values mean. The one invariant: a value is
// replaced only by itself under the primary key, in a statement that waits for nobody and holds
// its locks for one batch.
package rotation

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/secret/seal"
)

const (
	// A page is read, and its old values are replaced, in a statement that holds its
	// locks for some milliseconds. A value may have a megabyte: few fit into memory
	// at once.
	pageSize = 32

	// maxPasses bounds the passes over the tables. The second finds what was
	// written or locked during the first; more are needed only while a process
	// goes on sealing under an old key.
	maxPasses  = 10
	passPause  = 200 * time.Millisecond
	namedFirst = 5 // values that could not be opened, in a report
)

// Progress is how far the work has come in one table.
type Progress struct {
	Table  string
	Looked int // values seen in this pass
	Sealed int // of them sealed anew
}

// Report is what became of the sealed values.
type Report struct {
	Sealed int      // anew, in all
	Left   int      // still under an old key after the last pass: locked, or written meanwhile
	Closed int      // that no key of the ring opens
	First  []string // the places of the first of these
	// Uses are the keys of the processes that ran when the last pass began, or when
	// it ended: what one of them sealed under an old key behind the pass may be left,
	// although the process is gone.
	Uses []Use
}

// Done says that no value is left that was not sealed under the primary key.
func (r Report) Done() bool { return r.Left == 0 && r.Closed == 0 }

// value is one sealed value that is not under the primary key.
type value struct {
	workspaceID, id uuid.UUID
	stale, fresh    []byte
}

// Run seals anew whatever is not under the ring's primary key. It begins where
// it finds work, so that it may be ended and begun again at any time. An error
// is the database's.
func Run(ctx context.Context, pool *pgxpool.Pool, ring *seal.Keyring, tell func(Progress)) (Report, error) {
	var report Report
	for pass := 1; ; pass++ {
		before, err := Uses(ctx, pool)
		if err != nil {
			return report, err
		}
		report.Left, report.Closed, report.First = 0, 0, nil
		for _, t := range tables {
			if err := (&walk{table: t, pool: pool, ring: ring, tell: tell, report: &report}).run(ctx); err != nil {
				return report, err
			}
		}
		if report.Left == 0 || pass == maxPasses {
			after, err := Uses(ctx, pool)
			report.Uses = merged(before, after)
			return report, cmp.Or(err, renew(ctx, pool, ring))
		}
		if err := wait.For(ctx, passPause); err != nil {
			return report, err
		}
	}
}

// walk is one pass over one table.
type walk struct {
	table    table
	pool     *pgxpool.Pool
	ring     *seal.Keyring
	tell     func(Progress)
	report   *Report
	progress Progress
}

func (w *walk) run(ctx context.Context) error {
	w.progress.Table = w.table.name
	var after uuid.UUID
	for {
		page, last, err := w.table.page(ctx, w.pool, w.ring.Header(), after)
		if err != nil {
			return fmt.Errorf("read sealed values of %s: %w", w.table.name, err)
		}
		w.progress.Looked += page.looked
		if err := w.replace(ctx, w.open(page.stale)); err != nil {
			return err
		}
		if w.tell != nil {
			w.tell(w.progress)
		}
		if page.looked < pageSize {
			return nil
		}
		after = last
	}
}

// open seals values anew, and notes those that cannot be opened.
func (w *walk) open(stale []value) (fresh []value) {
	for _, v := range stale {
		sealed, err := w.ring.Reseal(v.stale, w.table.place(v.workspaceID, v.id))
		if err != nil {
			w.report.Closed++
			if len(w.report.First) < namedFirst {
				w.report.First = append(w.report.First, w.table.name+" "+v.id.String())
			}
			continue
		}
		v.fresh = sealed
		fresh = append(fresh, v)
	}
	return fresh
}

func (w *walk) replace(ctx context.Context, values []value) error {
	if len(values) == 0 {
		return nil
	}
	done, err := w.table.replace(ctx, w.pool, values)
	if err != nil {
		return fmt.Errorf("replace sealed values of %s: %w", w.table.name, err)
	}
	w.progress.Sealed += int(done)
	w.report.Sealed += int(done)
	w.report.Left += len(values) - int(done)
	return nil
}
