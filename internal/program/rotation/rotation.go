// Package rotation replaces the master key while traffic runs: it tracks which processes use which
// key, and re-encrypts stored values.
//
// It does not depend on where keys are stored or what sealed values mean. Invariant: A rotation
// only replaces a value with the same value sealed under the primary key. The statement that does
// so waits for no lock, and holds its own locks for one batch.
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
	// A page of values is read and replaced per statement, which holds its locks for a few
	// milliseconds. A value may have a megabyte, so a page must fit into memory.
	pageSize = 32

	// maxPasses bounds the passes over the tables. The second pass finds values that were written
	// or locked during the first. More passes are needed only while a process still seals under an
	// old key.
	maxPasses = 10
	passPause = 200 * time.Millisecond
	maxNamed  = 5 // unreadable values that a report names
)

// Progress is the progress of a pass over one table.
type Progress struct {
	Table   string
	Scanned int // values read in this pass
	Sealed  int // values re-encrypted in this pass
}

// Report is the result of a rotation.
type Report struct {
	Sealed     int      // values re-encrypted in all passes
	Left       int      // values still under an old key after the last pass: locked, or written meanwhile
	Unreadable int      // values that no key of the ring opens
	First      []string // places of the first unreadable values
	// Uses lists the keys of the processes that ran when the last pass started or finished. If one
	// of these processes sealed values under an old key in rows that the pass had already read,
	// these values remain, even if the process has exited.
	Uses []Use
}

// Done reports whether every value is sealed under the primary key.
func (r Report) Done() bool { return r.Left == 0 && r.Unreadable == 0 }

// value is a sealed value that is not under the primary key.
type value struct {
	workspaceID, id uuid.UUID
	stale, fresh    []byte
}

// Run re-encrypts every value that is not under the ring's primary key. It skips all other values,
// so it can be interrupted and repeated at any time. It returns the errors of the database.
func Run(ctx context.Context, pool *pgxpool.Pool, ring *seal.Keyring, progress func(Progress)) (Report, error) {
	var report Report
	for pass := 1; ; pass++ {
		before, err := Uses(ctx, pool)
		if err != nil {
			return report, err
		}
		report.Left, report.Unreadable, report.First = 0, 0, nil
		for _, t := range tables {
			if err := (&walk{table: t, pool: pool, ring: ring, callback: progress, report: &report}).run(ctx); err != nil {
				return report, err
			}
		}
		if report.Left == 0 || pass == maxPasses {
			after, err := Uses(ctx, pool)
			report.Uses = merged(before, after)
			return report, cmp.Or(err, updateKeyCheck(ctx, pool, ring))
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
	callback func(Progress)
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
		w.progress.Scanned += page.scanned
		if err := w.replace(ctx, w.reseal(page.stale)); err != nil {
			return err
		}
		if w.callback != nil {
			w.callback(w.progress)
		}
		if page.scanned < pageSize {
			return nil
		}
		after = last
	}
}

// reseal re-encrypts values, and records those that no key opens.
func (w *walk) reseal(stale []value) (fresh []value) {
	for _, v := range stale {
		sealed, err := w.ring.Reseal(v.stale, w.table.place(v.workspaceID, v.id))
		if err != nil {
			w.report.Unreadable++
			if len(w.report.First) < maxNamed {
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
