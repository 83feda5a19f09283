package run

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
)

// Overview is a run with its graph and with its stages counted by component, so that its size
// doesn't depend on the number of items of loops.
type Overview struct {
	Run        api.WorkflowRun    // without its stages
	Plan       *graph.Plan        // nil if this process cannot compile the run's version
	Components []ComponentSummary // in the order in which their first stages were created
	Awaited    []string           // names of the signals that stages wait for
}

// ComponentSummary counts the stages of a component.
type ComponentSummary struct {
	ComponentID, Module string

	Total, Completed, Failed, Canceled, Running int64 // stages
	Waiting                                     int64 // stages that wait for a signal
	Items                                       int64 // of a loop
	Attempts                                    int32 // of the stage with the most attempts
	Usage                                       credit.Amount
	StartedAt, FinishedAt                       time.Time // first start and last end; may be zero
	NextAttemptAt                               time.Time // the next retry; zero if no stage waits for one
	FirstID, FailedID                           uuid.UUID // the first stage, and the first failed stage or uuid.Nil
}

// Overview returns a run with its graph and its components. It returns the errors of Get.
func (s *Service) Overview(ctx context.Context, key notify.Key, access Access) (o Overview, err error) {
	if o.Run, err = s.Get(ctx, key, access); err != nil {
		return o, err
	}
	loaded, err := s.Workflows.LoadVersion(ctx, s.API, key.WorkspaceID, o.Run.WorkflowID, o.Run.WorkflowVersion)
	if err != nil && fault.CodeOf(err) != fault.InvalidInput {
		return o, err
	}
	o.Plan = loaded.Plan
	rows, err := db.New().RunComponentList(ctx, s.API, db.RunComponentListParams{WorkspaceID: key.WorkspaceID, RunID: key.ID})
	if err != nil {
		return o, fmt.Errorf("list the components of a run: %w", err)
	}
	for _, row := range rows {
		o.Components = append(o.Components, ComponentSummary{
			ComponentID: row.ComponentID, Module: row.Module, Total: row.Total, Completed: row.Completed, Failed: row.Failed,
			Canceled: row.Canceled, Running: row.Running, Waiting: row.Waiting, Items: row.Items, Attempts: row.Attempt,
			Usage: credit.Amount(row.Usage), StartedAt: row.StartedAt, FinishedAt: row.FinishedAt, NextAttemptAt: row.NextAttemptAt, FirstID: row.FirstID, FailedID: row.FailedID,
		})
	}
	if !o.Run.Status.Terminal() {
		o.Awaited, err = s.Awaited(ctx, key)
	}
	return o, err
}

// Item is the state of one item of a loop.
type Item struct {
	Index                        int32
	Failed, Canceled, Unfinished bool // a stage of the item is
}

// Items returns the items of a loop that have stages, in order. outer is the iteration of the loop
// itself, which is empty for a loop that isn't in a loop. The caller has checked the access.
func (s *Service) Items(ctx context.Context, key notify.Key, plan *graph.Plan, loop string, outer []int32) ([]Item, error) {
	if outer == nil {
		outer = []int32{}
	}
	rows, err := db.New().RunItemList(ctx, s.API, db.RunItemListParams{WorkspaceID: key.WorkspaceID, RunID: key.ID, Members: plan.Members(loop), Outer: outer})
	if err != nil {
		return nil, fmt.Errorf("list the items of a loop: %w", err)
	}
	items := make([]Item, len(rows))
	for i, row := range rows {
		items[i] = Item{Index: row.Item, Failed: row.Failed, Canceled: row.Canceled, Unfinished: row.Unfinished}
	}
	return items, nil
}

// Activity is what happens in a workspace.
type Activity struct {
	Live     int64            // runs that are not final, up to MaxCounted
	Oldest   *api.WorkflowRun // the oldest of them; nil if all runs are final
	Failures []Failures       // the most frequent ones
}

// Failures counts the runs that failed with a code.
type Failures struct {
	Code  string
	Count int64
}

// MaxCounted limits the runs that Activity counts, and maxCodes the codes that it lists.
const (
	MaxCounted = 10_000
	maxCodes   = 10
)

// Activity returns which runs of the workspace are not final, and which failed since a time.
func (s *Service) Activity(ctx context.Context, workspaceID uuid.UUID, since time.Time) (a Activity, err error) {
	live, err := db.New().RunCountLive(ctx, s.API, db.RunCountLiveParams{WorkspaceID: workspaceID, MaxWalked: MaxCounted})
	if err != nil {
		return a, fmt.Errorf("count the unfinished runs: %w", err)
	}
	if a.Live = live.Live; a.Live > 0 {
		row, err := s.get(ctx, notify.Key{WorkspaceID: workspaceID, ID: live.Oldest})
		if err != nil {
			return a, err
		}
		oldest, err := s.record(ctx, workspaceID, row)
		if err != nil {
			return a, err
		}
		a.Oldest = &oldest
	}
	least, _ := cursor.Created{After: &since}.IDs(uuid.Max)
	rows, err := db.New().RunCountFailures(ctx, s.API, db.RunCountFailuresParams{WorkspaceID: workspaceID, Least: least, Since: since, MaxWalked: MaxCounted, MaxRows: maxCodes})
	if err != nil {
		return a, fmt.Errorf("count the failed runs: %w", err)
	}
	for _, row := range rows {
		a.Failures = append(a.Failures, Failures{Code: row.Code, Count: row.Failed})
	}
	return a, nil
}
