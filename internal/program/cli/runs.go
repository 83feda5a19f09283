package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/calendar"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// runsPath is the path of runs.
const runsPath = workflowsPath + "/executions"

// workflowsRun starts a run. Exit code 0 means that the run was accepted, or with --watch that the
// run is COMPLETED.
type workflowsRun struct {
	target
	begin
	Workflow string `arg:"" help:"Key, name or ID of the workflow, or a YAML or JSON file that contains a workflow. A file is saved first: it replaces the workflow with its name, or creates one."`
	Yes      bool   `help:"Replace the workflow with the name in the file without asking."`
	Input    string `default:"{}" placeholder:"JSON" help:"Input of the run: JSON, @FILE, or - for stdin."`
}

func (c *workflowsRun) Run(s caller) error {
	request := api.TriggerWorkflowRequest{}
	var err error
	if request.Input, err = readObject("--input", c.Input, s.stdin); err != nil {
		return err
	}
	if err := c.begin.validate(&request); err != nil {
		return err
	}
	workflowID, err := c.workflowID(s)
	if err != nil {
		return err
	}
	return c.start(s, workflowID, request)
}

// begin has the flags of commands that start a run.
type begin struct {
	Watch          bool   `help:"Follow the run until it finishes."`
	MaxCredits     string `name:"max-credits" placeholder:"N" help:"Maximum number of credits that the run may cost."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key returns the same run."`
	Deadline       string `placeholder:"DURATION" help:"Time from now within which the run must finish, such as 2h. Otherwise it is stopped. Default: that of the workflow."`
	CallbackURL    string `name:"callback-url" placeholder:"URL" help:"URL to which the record of the finished run is posted."`
	SecretFile     string `name:"callback-secret-file" placeholder:"FILE" help:"File with the key of the callback's signature. Requires --callback-url."`
}

// validate sets the limits and the callback of the request.
func (c begin) validate(request *api.TriggerWorkflowRequest) error {
	var err error
	if request.DeadlineMs, err = deadlineOf(c.Deadline); err != nil {
		return err
	}
	if c.CallbackURL != "" {
		request.CallbackURL = &c.CallbackURL
	}
	if c.SecretFile != "" {
		if c.CallbackURL == "" {
			return usage("--callback-secret-file requires --callback-url")
		}
		raw, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return fmt.Errorf("--callback-secret-file: %w", err)
		}
		request.CallbackSecret = new(withoutLineEnd(raw))
	}
	if c.MaxCredits != "" {
		request.MaxCredits = new(json.Number(c.MaxCredits))
	}
	if _, err := strictjson.Encode(request.MaxCredits); err != nil {
		return usage("--max-credits: %q is not a number", c.MaxCredits)
	}
	return nil
}

// deadlineOf returns the milliseconds of a --deadline, or nil if it is empty.
func deadlineOf(flag string) (*int64, error) {
	if flag == "" {
		return nil, nil
	}
	milliseconds, err := calendar.ParseDuration(flag)
	if err != nil {
		return nil, usage("--deadline: %s", err)
	}
	return &milliseconds, nil
}

// start starts a run and prints what was accepted, or follows the run.
func (c begin) start(s caller, workflowID uuid.UUID, request api.TriggerWorkflowRequest) error {
	var begun api.TriggerResult
	raw, err := s.exchange(http.MethodPost, workflowsPath+"/"+workflowID.String(), request, idempotencyHeader(c.IdempotencyKey), &begun)
	if err != nil {
		return err
	}
	if c.Watch {
		s.note("run %s", begun.RunID)
		return s.watch(begun.RunID, 0)
	}
	if err := s.printRecord(raw, "Run=runId"); err != nil {
		return err
	}
	s.note("The run continues. To follow it: weft runs watch %s", begun.RunID)
	if page, err := consolePage(s.credentials, begun.RunID); err == nil {
		s.note("Watch it: %s", page)
	}
	return nil
}

// workflowID returns the ID of the workflow to run. It saves a file first.
func (c *workflowsRun) workflowID(s caller) (uuid.UUID, error) {
	if id, err := uuid.Parse(c.Workflow); err == nil {
		return id, nil
	}
	if id, named := s.credentials.Workflows[c.Workflow]; named {
		return id, nil
	}
	file, err := readWorkflow(c.Workflow, nil)
	if errors.Is(err, fs.ErrNotExist) {
		if isYAML(c.Workflow) || filepath.Ext(c.Workflow) == ".json" || filepath.Base(c.Workflow) != c.Workflow {
			return uuid.Nil, usage("there is no file %s", c.Workflow)
		}
		return s.workflow(c.Workflow)
	}
	if err != nil {
		return uuid.Nil, err
	}
	saved, _, err := (&workflowsPush{Yes: c.Yes}).save(s, file, "change the name in the file")
	return saved.ID, err
}

// runsCommand works on the runs of workflows.
type runsCommand struct {
	List   runsList   `cmd:"" help:"List the runs."`
	Get    runsGet    `cmd:"" help:"Print the record of a run."`
	Watch  runsWatch  `cmd:"" help:"Follow a run until it finishes."`
	Signal runsSignal `cmd:"" help:"Send a signal to a run."`
	Cancel runsCancel `cmd:"" help:"Cancel a run."`
	Rerun  runsRerun  `cmd:"" help:"Repeat a run from where it failed."`

	ReplayCallback runsReplay `cmd:"" name:"replay-callback" help:"Send the callback of a run again, if its delivery failed."`
}

// oneRun is the argument of commands on one run.
type oneRun struct {
	target
	RunID uuid.UUID `arg:"" optional:"" name:"run" help:"ID of the run, or --last instead."`
	Last  bool      `help:"Use the run that was started last."`
}

// resolve sets the ID of the run.
func (c *oneRun) resolve(s caller) (err error) {
	c.RunID, err = s.oneOrLast(runsPath, "run", c.RunID, c.Last)
	return err
}

// oneOrLast returns the ID of an argument or, for --last, of the first item of a list.
func (s caller) oneOrLast(path, kind string, id uuid.UUID, last bool) (uuid.UUID, error) {
	if last == (id != uuid.Nil) {
		return id, usage("pass the ID of the %s or --last", kind)
	}
	if !last {
		return id, nil
	}
	all, _, err := list[item](s, path, url.Values{}, size{Limit: 1})
	if err == nil && len(all) == 0 {
		err = notFound("there are no %ss. Start one: %s", kind, map[string]string{"run": startRun, "execution": startExecution}[kind])
	}
	if err != nil {
		return uuid.Nil, err
	}
	return all[0].ID, nil
}

// runsGet prints the record of a run.
type runsGet struct{ oneRun }

func (c *runsGet) Run(s caller) error { return s.printRun(s.get(runsPath + "/" + c.RunID.String())) }

// printRun prints a run. Its table has the fields, the stages, the input and the output.
func (s caller) printRun(raw []byte, err error) error {
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		var run api.WorkflowRun
		if err := json.Unmarshal(raw, &run); err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		if err := s.drawNamed(out, raw, "Workflow=workflow", "Status=status", "Trigger=trigger", "Started=createdAt", "Took=TOOK", "Credits=totalUsage",
			"Failed at=error.componentId", "Error=error.code", "Message=error.message", "Cancel requested=cancelRequestedAt", "Reason=cancelReason",
			"Repeats run=rerunOf.runId", "Parent run=parentRunId", "ID=id", "Callback=callback.url", "Delivered=callback.deliveredAt",
			"Deliveries tried=callback.attemptCount", "Last error=callback.lastError.message"); err != nil {
			return err
		}
		stages := newStageTable()
		for _, stage := range run.RunStages {
			stages.add(stage)
		}
		if len(stages.order) > 0 {
			fmt.Fprintln(out)
			if err := stages.print(s.session, out, failureOf(run.Error)); err != nil {
				return err
			}
		}
		return s.draw(out, raw, "Input=input", "Output=output")
	})
}

// runsWatch shows a run. Exit code 0 means that it is COMPLETED.
type runsWatch struct{ oneRun }

func (c *runsWatch) Run(s caller) error { return s.watch(c.RunID, -1) }

// runsSignal sends a signal to a run.
type runsSignal struct {
	target
	RunID   string `arg:"" name:"run" help:"ID of the run. With --last, leave it out."`
	Signal  string `arg:"" optional:"" help:"Name of the signal."`
	Last    bool   `help:"Use the run that was started last."`
	Payload string `default:"{}" placeholder:"JSON" help:"Payload of the signal, a JSON object: JSON, @FILE, or - for stdin."`
}

// signalName matches the signal names that a path can contain.
var signalName = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)

func (c *runsSignal) Run(s caller) error {
	of := oneRun{Last: c.Last}
	var err error
	if c.Last && c.Signal == "" {
		c.Signal = c.RunID
	} else if of.RunID, err = uuid.Parse(c.RunID); err != nil {
		return usage("%q is not a valid ID of a run; expected a UUID, or --last", c.RunID)
	}
	if len(c.Signal) > 200 || !signalName.MatchString(c.Signal) {
		return usage("%q is not a valid signal name: use 1 to 200 letters, digits and . _ ~ -", c.Signal)
	}
	payload, err := readObject("--payload", c.Payload, s.stdin)
	if err != nil {
		return err
	}
	if err := of.resolve(s); err != nil {
		return err
	}
	path := runsPath + "/" + of.RunID.String() + "/signals/" + url.PathEscape(c.Signal)
	var kept api.RunSignal
	raw, err := s.exchange(http.MethodPut, path, payload, nil, &kept)
	if err != nil {
		return err
	}
	switch {
	case !sameJSON(kept.Payload, payload):
		s.note("The run already had this signal, and keeps the payload of the first signal.")
	case kept.WaitingFor != nil && !slices.Contains(kept.WaitingFor, c.Signal): // nil: an older service
		s.note("%s", unawaited(of.RunID, c.Signal, kept.WaitingFor))
	}
	return s.printRecord(raw)
}

// unawaited says what a run waits for instead of a signal that it has stored.
func unawaited(runID uuid.UUID, name string, waitingFor []string) string {
	awaited := "no signal"
	if len(waitingFor) > 0 {
		awaited = `"` + strings.Join(waitingFor, `", "`) + `"`
	}
	return fmt.Sprintf("Stored. Run %s waits for %s; nothing waits for %q now. If the name is right, the run uses the signal when it reaches a WAIT_FOR_SIGNAL with that name.", runID, awaited, name)
}

// sameJSON reports whether two strings are the same JSON value, whatever their format.
func sameJSON(a, b []byte) bool {
	first, err := strictjson.Decode(a)
	second, otherErr := strictjson.Decode(b)
	return err == nil && otherErr == nil && reflect.DeepEqual(first, second)
}

// runsCancel cancels a run.
type runsCancel struct {
	oneRun
	Immediate bool   `help:"Stop current attempts instead of letting them finish."`
	Reason    string `placeholder:"TEXT" help:"Reason recorded on the run."`
}

func (c *runsCancel) Run(s caller) error {
	request := api.CancelWorkflowRunRequest{Reason: optional(c.Reason)}
	if c.Immediate {
		request.Mode = new(api.CancelModeImmediate)
	}
	var run api.WorkflowRun
	raw, err := s.exchange(http.MethodPut, runsPath+"/"+c.RunID.String()+"/cancellation", request, nil, &run)
	if err != nil {
		return err
	}
	if run.FinishedAt != nil {
		s.note("The run has already finished: %s.", run.Status)
	} else {
		s.note("No new stage starts. The run is CANCELED when its last stage has stopped. To follow the run: weft runs watch %s", c.RunID)
	}
	return s.printRun(raw, nil)
}

// runsRerun starts a run that repeats another one.
type runsRerun struct {
	oneRun
	begin
	From uuid.UUID `name:"from-stage" placeholder:"ID" help:"ID of the stage from which on all stages run again. Default: only stages that did not complete, and all stages after them."`
}

func (c *runsRerun) Run(s caller) error {
	request := api.TriggerWorkflowRequest{RerunOf: &api.GivenRunOrigin{RunID: c.RunID, FromStageID: optional(c.From)}}
	if err := c.begin.validate(&request); err != nil {
		return err
	}
	var earlier api.WorkflowRun
	if _, err := s.exchange(http.MethodGet, runsPath+"/"+c.RunID.String()+"?stages=none", nil, nil, &earlier); err != nil {
		return err
	}
	return c.start(s, earlier.WorkflowID, request)
}

// runsReplay sends the callback of a run again.
type runsReplay struct {
	oneRun
	Force bool `help:"Send the callback again even if it was delivered."`
}

func (c *runsReplay) Run(s caller) error {
	path := runsPath + "/" + c.RunID.String() + "/callback/replay"
	if c.Force {
		path += "?force=true"
	}
	return s.printRun(s.ask(http.MethodPost, path, nil, nil))
}
