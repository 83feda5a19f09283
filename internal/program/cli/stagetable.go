package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// stageTable folds the stages of a run into a line for each component, in the order in
// which these began. It keeps no stage, however many there are.
type stageTable struct {
	order []string
	lines map[string]*stageLine
}

// stageLine is a component, over all iterations of the loops around it.
type stageLine struct {
	module     string
	looped     bool
	times      int
	statuses   map[status.Stage]int
	usage      credit.Amount
	began, end time.Time
	failure    string // of the first that failed
	items      map[status.Stage]*spans
}

func newStageTable() *stageTable { return &stageTable{lines: map[string]*stageLine{}} }

func (t *stageTable) add(stage api.RunStage) {
	line := t.lines[stage.ComponentID]
	if line == nil {
		line = &stageLine{module: stage.Module, statuses: map[status.Stage]int{}, items: map[status.Stage]*spans{}}
		t.lines[stage.ComponentID] = line
		t.order = append(t.order, stage.ComponentID)
	}
	line.add(stage)
}

func (l *stageLine) add(stage api.RunStage) {
	l.times++
	if len(stage.Iteration) > 0 {
		l.looped = true
		if l.items[stage.Status] == nil {
			l.items[stage.Status] = &spans{}
		}
		l.items[stage.Status].add(stage.Iteration)
	}
	l.statuses[stage.Status]++
	l.usage += stage.CreditUsage
	if stage.StartedAt != nil && (l.began.IsZero() || stage.StartedAt.Std().Before(l.began)) {
		l.began = stage.StartedAt.Std()
	}
	if stage.FinishedAt != nil && stage.FinishedAt.Std().After(l.end) {
		l.end = stage.FinishedAt.Std()
	}
	var failure struct{ Code, Message string }
	if l.failure == "" && len(stage.Error) > 0 && json.Unmarshal(stage.Error, &failure) == nil && failure.Code != "" {
		l.failure = printable(failure.Code + ": " + failure.Message)
	}
}

func (t *stageTable) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "COMPONENT\tMODULE\tSTATUS\tTIMES\tDURATION\tCREDITS")
	for _, id := range t.order {
		line := t.lines[id]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\n",
			printable(id), printable(line.module), line.status(), line.iterations(), line.duration(), line.usage)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, id := range t.order {
		if failure := t.lines[id].failure; failure != "" {
			if _, err := fmt.Fprintf(out, "%s: %s\n", printable(id), failure); err != nil {
				return err
			}
		}
	}
	return nil
}

// printItems tells of the components in loops which items they ended for, and how: what was
// done for some stays done, whatever became of others.
func (t *stageTable) printItems(out io.Writer) error {
	for _, id := range t.order {
		line := t.lines[id]
		if !line.looped {
			continue
		}
		var parts []string
		for _, s := range ofStage {
			if items := line.items[s]; items != nil {
				parts = append(parts, fmt.Sprintf("%s for %s", s, items))
			}
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", printable(id), strings.Join(parts, "; ")); err != nil {
			return err
		}
	}
	return nil
}

// ofStage is every status of a stage, in the order in which they are told.
var ofStage = []status.Stage{status.StageCompleted, status.StageFailed, status.StageCanceled, status.StageRunning, status.StageCreated}

// status is the one that all have, or how many have which.
func (l *stageLine) status() string {
	var parts []string
	for _, s := range ofStage {
		switch n := l.statuses[s]; n {
		case 0:
		case l.times:
			return string(s)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

func (l *stageLine) iterations() string {
	if !l.looped {
		return ""
	}
	return fmt.Sprintf("x%d", l.times)
}

// duration is from the first begin to the last end.
func (l *stageLine) duration() string {
	if l.began.IsZero() || l.end.IsZero() {
		return ""
	}
	return l.end.Sub(l.began).String()
}
