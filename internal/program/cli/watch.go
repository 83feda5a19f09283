package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/client"
)

// watch shows a run until it is final, then its stages.
func (s caller) watch(runID uuid.UUID, after int64) error {
	waiting := s.wait("Waiting for run %s", runID)
	defer waiting.end()
	var shown status.Run
	err := followStream(s.session, func() iter.Seq2[api.RunEvent, error] { return s.StreamRun(s.ctx, runID, after) }, func(event api.RunEvent) {
		if again := event.Seq <= after; again && !event.Status.Terminal() {
			return
		}
		after = event.Seq
		waiting.show(picture(event))
		if event.Status != shown {
			shown = event.Status
			waiting.say()
		}
	})
	waiting.end()
	if err != nil && s.ctx.Err() != nil {
		s.note("Stopped watching. The run continues. To follow it again: weft runs watch %s", runID)
		return errQuiet
	}
	if err != nil {
		return s.explain(err, s.credentials)
	}
	return s.summarize(runID)
}

// followStream calls each with every event of a stream, up to its final one. It opens the stream
// again if it breaks off.
func followStream[E any](s *session, open func() iter.Seq2[E, error], each func(E)) error {
	for broken := 0; ; broken++ {
		var failure error
		for event, err := range open() {
			if failure = err; err != nil {
				break
			}
			broken = 0
			each(event)
		}
		_, refused := errors.AsType[*client.Problem](failure)
		if failure == nil || s.ctx.Err() != nil || refused || broken == maxReconnects {
			return failure
		}
		s.note("the stream broke off (%v); reconnecting", failure)
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// summarize prints the output of a finished run, and its stages as progress.
func (s caller) summarize(runID uuid.UUID) error {
	stages := newStageTable()
	run, err := s.Run(s.ctx, runID, stages.add)
	if err != nil {
		return s.explain(err, s.credentials)
	}
	reported := "" // with the result
	if run.Status == status.RunFailed {
		reported = failureOf(run.Error)
	}
	if err := stages.print(s.session, s.progress(), reported); err != nil {
		return err
	}
	if run.Status != status.RunCompleted {
		if err := stages.printItems(s.progress()); err != nil {
			return err
		}
	}
	var raw []byte
	if !s.tabular() { // the record, with its stages
		if raw, err = s.get(runsPath + "/" + runID.String()); err != nil {
			return err
		}
	}
	if err := s.print(raw, func(out io.Writer) error { return printOutput(out, run.Output) }); err != nil {
		return err
	}
	return s.concludeRun(run)
}

// concludeRun prints the result.
func (s *session) concludeRun(run api.WorkflowRun) error {
	took := time.Duration(0)
	if run.FinishedAt != nil {
		took = run.FinishedAt.Std().Sub(run.CreatedAt.Std())
	}
	switch run.Status {
	case status.RunCompleted:
		s.note("COMPLETED in %v, usage %s", took, usageOf(run))
		return nil
	case status.RunFailed:
		at := s.cell(at(run.Error, "componentId"))
		if at != "" {
			at = " at " + at
		}
		return fmt.Errorf("FAILED%s after %v, usage %s: %s", at, took, usageOf(run), failureOf(run.Error))
	default:
		reason := ""
		if run.CancelReason != nil {
			reason = ": " + printable(*run.CancelReason)
		}
		return fmt.Errorf("%s after %v, usage %s%s", run.Status, took, usageOf(run), reason)
	}
}

// failureOf returns the code and the message of an error in a record, or "" if it has another form.
func failureOf(raw json.RawMessage) string {
	var failure struct{ Code, Message string }
	if json.Unmarshal(raw, &failure) != nil || failure.Code == "" {
		return ""
	}
	return printable(failure.Code + ": " + failure.Message)
}

// usageOf formats the usage of a run, and that with its child runs if it is higher.
func usageOf(run api.WorkflowRun) string {
	if run.TotalUsageWithChildren <= run.TotalUsage { // older servers do not report it
		return run.TotalUsage.String()
	}
	return fmt.Sprintf("%v (%v with child runs)", run.TotalUsage, run.TotalUsageWithChildren)
}

// stageTable summarizes the stages of a run in a line for each component, in the order of their
// start. It does not store the stages, because a run may have many.
type stageTable struct {
	order []string
	lines map[string]*stageLine
}

// maxItems bounds the items that are listed of a component, however many there are.
const maxItems = 20

// stageLine is a component with all iterations of the loops around it.
type stageLine struct {
	module     string
	looped     bool
	times      int
	statuses   map[status.Stage]int
	usage      credit.Amount
	began, end time.Time
	attempts   int32         // of the stage with the most
	next       *api.RunStage // the stage that waits for its next attempt, the first one of several
	failure    string        // error of the first failed stage
	items      map[status.Stage][]string
}

func newStageTable() *stageTable { return &stageTable{lines: map[string]*stageLine{}} }

func (t *stageTable) add(stage api.RunStage) {
	line := t.lines[stage.ComponentID]
	if line == nil {
		line = &stageLine{module: stage.Module, statuses: map[status.Stage]int{}, items: map[status.Stage][]string{}}
		t.lines[stage.ComponentID] = line
		t.order = append(t.order, stage.ComponentID)
	}
	line.add(stage)
}

func (l *stageLine) add(stage api.RunStage) {
	l.times++
	if len(stage.Iteration) > 0 {
		l.looped = true
		if items := l.items[stage.Status]; len(items) < maxItems {
			l.items[stage.Status] = append(items, index(stage.Iteration))
		}
	}
	l.statuses[stage.Status]++
	l.usage += stage.CreditUsage
	if stage.StartedAt != nil && (l.began.IsZero() || stage.StartedAt.Std().Before(l.began)) {
		l.began = stage.StartedAt.Std()
	}
	if stage.FinishedAt != nil && stage.FinishedAt.Std().After(l.end) {
		l.end = stage.FinishedAt.Std()
	}
	l.attempts = max(l.attempts, stage.ExecutionAttempt)
	if at := stage.NextAttemptAt; at != nil && (l.next == nil || at.Std().Before(l.next.NextAttemptAt.Std())) {
		l.next = &stage
	}
	l.failure = cmp.Or(l.failure, failureOf(stage.Error))
}

// print prints the table and the failures, except for the failure that is reported elsewhere.
func (t *stageTable) print(s *session, out io.Writer, reported string) error {
	titles := []string{"COMPONENT", "MODULE", "STATUS", "TIMES", "DURATION", "CREDITS"}
	retried := slices.ContainsFunc(t.order, func(id string) bool { return t.lines[id].attempts > 1 })
	if retried {
		titles = slices.Insert(titles, 4, "ATTEMPTS")
	}
	lines := s.newTable(out, titles...)
	for _, id := range t.order {
		line := t.lines[id]
		cells := []string{printable(id), printable(line.module), line.status(), line.iterations(), line.duration(), line.usage.String()}
		if retried {
			cells = slices.Insert(cells, 4, strconv.Itoa(int(line.attempts)))
		}
		lines.row(cells...)
	}
	if err := lines.flush(); err != nil {
		return err
	}
	for _, id := range t.order {
		if next := t.lines[id].next; next != nil {
			if _, err := fmt.Fprintf(out, "%s: waits for attempt %d, until %s\n", printable(id), next.ExecutionAttempt+1, s.when(next.NextAttemptAt.Std())); err != nil {
				return err
			}
		}
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
			items := line.items[s]
			if len(items) == 0 {
				continue
			}
			noun := "items"
			if len(items) == 1 {
				noun = "item"
			}
			part := fmt.Sprintf("%s for %s %s", s, noun, strings.Join(items, ", "))
			if more := line.statuses[s] - len(items); more > 0 {
				part += fmt.Sprintf(" and %d more", more)
			}
			parts = append(parts, part)
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

// index formats the index of an item, after the indexes of the enclosing items.
func index(iteration []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(iteration), " ", "."), "[]")
}

// picture returns the state of a run as a line of progress.
func picture(event api.RunEvent) string {
	var state api.RunEventOutput
	_ = json.Unmarshal(event.Output, &state) // each field may be missing
	text := fmt.Sprintf("%-9s  usage %v  pending %d", event.Status, state.TotalUsage, state.PendingStageCount)
	if state.FailedStageCount > 0 {
		text += fmt.Sprintf("  failed %d", state.FailedStageCount)
	}
	if state.CancelRequestedAt != nil {
		text += "  cancel requested"
	}
	if unfinished := groups(state); len(unfinished) > 0 {
		text += ": " + strings.Join(unfinished, ", ")
	}
	return text
}

// groups counts the unfinished stages by module and status.
func groups(state api.RunEventOutput) []string {
	var order []string
	counts := map[string]int{}
	for _, stage := range state.NonTerminalStages {
		group := printable(stage.Module) + " " + string(stage.Status)
		if counts[group]++; counts[group] == 1 {
			order = append(order, group)
		}
	}
	for i, group := range order {
		if n := counts[group]; n > 1 {
			order[i] = fmt.Sprintf("%s x%d", group, n)
		}
	}
	if rest := int(state.PendingStageCount) - len(state.NonTerminalStages); rest > 0 {
		order = append(order, fmt.Sprintf("%d more", rest))
	}
	return order
}
