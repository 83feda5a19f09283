package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// stageTable summarizes the stages of a run in a line for each component, in the order of their
// start. It does not store the stages, because a run may have many.
type stageTable struct {
	order []string
	lines map[string]*stageLine
}

// stageLine is a component with all iterations of the loops around it.
type stageLine struct {
	module     string
	looped     bool
	times      int
	statuses   map[status.Stage]int
	usage      credit.Amount
	began, end time.Time
	failure    string // error of the first failed stage
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
	l.failure = cmp.Or(l.failure, failureOf(stage.Error))
}

// print prints the table and the failures, except for the failure that is reported elsewhere.
func (t *stageTable) print(s *session, out io.Writer, reported string) error {
	lines := s.newTable(out, "COMPONENT", "MODULE", "STATUS", "TIMES", "DURATION", "CREDITS")
	for _, id := range t.order {
		line := t.lines[id]
		lines.row(printable(id), printable(line.module), line.status(), line.iterations(), line.duration(), line.usage.String())
	}
	if err := lines.flush(); err != nil {
		return err
	}
	for _, id := range t.order {
		if failure := t.lines[id].failure; failure != "" && failure != reported {
			if _, err := fmt.Fprintf(out, "%s: %s\n", printable(id), failure); err != nil {
				return err
			}
		}
	}
	return nil
}

// printItems prints for each component in a loop the items by status. Items that completed stay
// completed when others fail.
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

// ofStage lists the statuses of a stage in the order of the output.
var ofStage = []status.Stage{status.StageCompleted, status.StageFailed, status.StageCanceled, status.StageRunning, status.StageCreated}

// status returns the common status, or the number of stages in each status.
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

// duration returns the time from the first start to the last finish.
func (l *stageLine) duration() string {
	if l.began.IsZero() || l.end.IsZero() {
		return ""
	}
	return l.end.Sub(l.began).String()
}
