package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// How many rows the overview shows.
const (
	shownCallbacks = 5
	shownSchedules = 5
	readSchedules  = 100 // among which the next ones are found
	recent         = 24 * time.Hour
)

// overviewPage is the data of the first page of a workspace.
type overviewPage struct {
	page.Frame
	run.Activity
	OldestRun *runRow // that is not final
	Callbacks []undelivered
	Schedules []api.Schedule // the next ones
	Credits   api.Credits
	Latest    []runRow
}

// undelivered is a callback that is not sent again.
type undelivered struct {
	callback.Exhausted
	Address string // of the page of its execution or run
	Failure failure
}

// Full reports whether there are more runs than Activity counts.
func (p overviewPage) Full() bool { return p.Live >= run.MaxCounted }

// Failed returns the number of failed runs in Failures.
func (p overviewPage) Failed() (total int64) {
	for _, one := range p.Failures {
		total += one.Count
	}
	return total
}

// Many reports whether there may be more callbacks than the page shows.
func (p overviewPage) Many() bool { return len(p.Callbacks) == shownCallbacks }

// overview shows what happens in a workspace.
func (s *site) overview(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	var p overviewPage
	if p.Frame, err = s.Frame(ctx, v, "overview", "Overview"); err != nil {
		return err
	}
	p.Follow = followWorkspace(v.WorkspaceID)
	if p.Activity, err = s.Runs.Activity(ctx, v.WorkspaceID, time.Now().Add(-recent)); err != nil {
		return err
	}
	latest, err := s.Runs.List(ctx, v.WorkspaceID, run.ListParams{Limit: 5})
	if err != nil {
		return err
	}
	shown := latest.Data
	if p.Oldest != nil {
		shown = append(slices.Clone(shown), *p.Oldest)
	}
	if p.Latest, err = s.rows(ctx, v.WorkspaceID, shown); err != nil {
		return err
	}
	if last := len(p.Latest) - 1; p.Oldest != nil {
		p.OldestRun, p.Latest = &p.Latest[last], p.Latest[:last]
	}
	exhausted, err := s.Callbacks.Exhausted(ctx, v.WorkspaceID, shownCallbacks)
	if err != nil {
		return err
	}
	for _, one := range exhausted {
		address := executionAddress(v.WorkspaceID, one.ExecutionID)
		if one.OfRun {
			address = runAddress(v.WorkspaceID, one.ExecutionID)
		}
		p.Callbacks = append(p.Callbacks, undelivered{one, address, failureOf(one.LastError)})
	}
	if p.Credits, err = s.Credits.Credits(ctx, v.WorkspaceID); err != nil {
		return err
	}
	schedules, err := s.Schedules.List(ctx, v.WorkspaceID, run.ListParams{Limit: readSchedules})
	if err != nil {
		return err
	}
	p.Schedules = next(schedules.Data)
	s.Render(w, http.StatusOK, "overview", p)
	return nil
}

// next returns the schedules that are due next, the first one first.
func next(all []api.Schedule) []api.Schedule {
	all = slices.DeleteFunc(slices.Clone(all), func(one api.Schedule) bool { return one.NextAt == nil })
	slices.SortStableFunc(all, func(a, b api.Schedule) int {
		return cmp.Compare(a.NextAt.Std().UnixNano(), b.NextAt.Std().UnixNano())
	})
	return all[:min(len(all), shownSchedules)]
}
