package console

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// shownLog is the number of events of a run on its page.
const shownLog = 100

// runPage is the data of the page of a run.
type runPage struct {
	page.Frame
	runRow
	Graph      *graphic       // nil if this process cannot compile the run's version
	Components []componentRow // of all scopes, each loop before its body
	Selected   *selection     // nil: no component is selected
	Payload    string         // in the form of a signal
	Awaited    []string       // names of the signals that the run waits for
	Log        []logRow
	MoreLog    bool
	NewRun     uuid.UUID // makes resubmitting the form for a rerun harmless
	FailedAt   string    // name of the component that failed first, which the page shows by default
	RerunOf    string    // ID of the run that this one repeats; may be empty
	StorageFee credit.Amount
}

// ParentAddress returns the address of the parent run.
func (p runPage) ParentAddress() string { return runAddress(p.Workspace.ID, *p.ParentRunID) }

// RerunAddress returns the address of the run that this run repeats.
func (p runPage) RerunAddress() string { return p.Base() + "/runs/" + p.RerunOf }

// Live reports whether the run is not finished.
func (p runPage) Live() bool { return !p.Status.Terminal() }

// Shown returns JSON for reading.
func (p runPage) Shown(value json.RawMessage) page.Text { return page.Readable(value) }

// logRow is an event of a run.
type logRow struct {
	Seq       int64
	At        time.Time
	Status    string
	Running   string // unfinished stages, by module
	Pending   int32
	Failed    int32
	UsageText string
}

// run shows the page of a run.
func (s *site) run(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	return s.showRun(ctx, w, r, v, nil)
}

// showRun renders the page of a run, with the error of a form.
func (s *site) showRun(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor, rejected error) error {
	key, err := runKey(r, v)
	if err != nil {
		return err
	}
	overview, err := s.Runs.Overview(ctx, key, everyWorkflow{})
	if err != nil {
		return err
	}
	p, err := s.runPage(ctx, v, overview)
	if err != nil {
		return err
	}
	choice, err := s.choose(ctx, key, overview, r.URL.Query())
	if err != nil {
		return err
	}
	if p.Selected, err = s.selected(ctx, key, overview, choice); err != nil {
		return err
	}
	p.draw(overview, choice)
	if err := s.log(ctx, key, &p); err != nil {
		return err
	}
	answer := http.StatusOK
	p.Payload = cmp.Or(r.PostFormValue("payload"), "{}")
	if rejected != nil {
		answer, p.Fault = s.Explain(ctx, w.Header(), rejected)
	}
	s.Render(w, answer, "run", p)
	return nil
}

// runKey returns the key of the run in the path. It returns NOT_FOUND for a malformed ID.
func runKey(r *http.Request, v page.Visitor) (notify.Key, error) {
	id, err := uuid.Parse(r.PathValue("runId"))
	if err != nil {
		return notify.Key{}, fault.New(fault.NotFound, "There is no run with this ID.")
	}
	return notify.Key{WorkspaceID: v.WorkspaceID, ID: id}, nil
}

// runPage returns the page without what depends on the selection.
func (s *site) runPage(ctx context.Context, v page.Visitor, overview run.Overview) (p runPage, err error) {
	rows, err := s.rows(ctx, v.WorkspaceID, []api.WorkflowRun{overview.Run})
	if err != nil {
		return p, err
	}
	p.runRow, p.Awaited = rows[0], overview.Awaited
	if p.Frame, err = s.Frame(ctx, v, "runs", p.Name); err != nil {
		return p, err
	}
	if p.Live() {
		p.Follow = "/v1/sdk/workflows/executions/" + p.ID.String() + "/stream?workspace=" + v.WorkspaceID.String()
	}
	var origin struct{ RunID string }
	_ = json.Unmarshal(overview.Run.RerunOf, &origin) // null, or an object that the service wrote
	p.RerunOf = origin.RunID
	p.StorageFee = p.TotalUsage
	for _, one := range overview.Components {
		p.StorageFee -= one.Usage
	}
	p.NewRun, err = uuid7.New()
	return p, err
}

// log adds the first events of the run to the page.
func (s *site) log(ctx context.Context, key notify.Key, p *runPage) error {
	events, err := s.Runs.EventPage(ctx, key, everyWorkflow{}, run.ListParams{Limit: shownLog}, 0)
	if err != nil {
		return err
	}
	p.MoreLog = events.HasMore
	for _, event := range events.Data {
		var state api.RunEventOutput
		_ = json.Unmarshal(event.Output, &state) // each field may be missing
		var running []string
		for _, stage := range state.NonTerminalStages {
			running = append(running, stage.Module)
		}
		p.Log = append(p.Log, logRow{
			Seq: event.Seq, At: event.Timestamp.Std(), Status: string(event.Status), Pending: state.PendingStageCount, Failed: state.FailedStageCount,
			Running: strings.Join(page.Counted(running), ", "), UsageText: page.Word(state.TotalUsage),
		})
	}
	return nil
}
