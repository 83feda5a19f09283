package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// runsPath is the path of runs.
const runsPath = workflowsPath + "/executions"

// workflowsRun starts a run. Exit code 0 means that the run was accepted, or with --watch that the
// run is COMPLETED.
type workflowsRun struct {
	target
	Workflow       string `arg:"" help:"ID of the workflow, its name in the credentials file, or a YAML or JSON file that contains a workflow. A file is saved first: it replaces the workflow with its name, or creates one."`
	Yes            bool   `help:"Replace the workflow with the name in the file without asking."`
	Input          string `default:"{}" placeholder:"JSON" help:"Input of the run: JSON, @FILE, or - for stdin."`
	Watch          bool   `help:"Follow the run until it finishes."`
	MaxCredits     string `name:"max-credits" placeholder:"N" help:"Maximum number of credits that the run may cost."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key returns the same run."`
}

func (c *workflowsRun) Run(s *session) error {
	request := api.TriggerWorkflowRequest{}
	var err error
	if request.Input, err = readObject("--input", c.Input, s.stdin); err != nil {
		return err
	}
	if c.MaxCredits != "" {
		request.MaxCredits = new(json.Number(c.MaxCredits))
	}
	body, err := strictjson.Encode(request)
	if err != nil { // the only field that is not validated yet
		return fmt.Errorf("--max-credits: %q is not a number", c.MaxCredits)
	}
	weft, err := c.caller(s)
	if err != nil {
		return err
	}
	workflowID, err := c.workflowID(s, weft)
	if err != nil {
		return err
	}
	var begun api.TriggerResult
	raw, err := weft.exchange(s, http.MethodPost, workflowsPath+"/"+workflowID.String(), json.RawMessage(body), idempotencyHeader(c.IdempotencyKey), &begun)
	if err != nil {
		return err
	}
	s.note("run %s", begun.RunID)
	if c.Watch {
		return weft.watch(s, begun.RunID, 0)
	}
	s.note("The run continues. To follow it: weft workflows watch %s", begun.RunID)
	return printJSON(s.stdout, raw)
}

// workflowID returns the ID of the workflow to run. It saves a file first.
func (c *workflowsRun) workflowID(s *session, weft caller) (uuid.UUID, error) {
	if id, err := uuid.Parse(c.Workflow); err == nil {
		return id, nil
	}
	if id, named := weft.credentials.Workflows[c.Workflow]; named {
		return id, nil
	}
	file, err := readWorkflow(c.Workflow, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return uuid.Nil, fmt.Errorf("%q is neither a workflow ID, nor a workflow name in the credentials file, nor a file; %s", c.Workflow, knownWorkflows(weft.credentials, c.Workflow))
	}
	if err != nil {
		return uuid.Nil, err
	}
	return c.save(s, file)
}

// save saves a file as the workflow with its name, unless that workflow has the same content, and
// returns its ID.
func (c *workflowsRun) save(s *session, file workflowFile) (uuid.UUID, error) {
	present, err := c.named(s, file.name())
	if err != nil {
		return uuid.Nil, err
	}
	push := workflowsPush{target: c.target, New: true}
	if present != nil {
		saved, err := c.ask(s, http.MethodGet, exportsPath+"/"+present.ID.String())
		if err != nil {
			return uuid.Nil, err
		}
		if file.Same(saved) {
			s.note("%s  %s  version %d  %s", present.ID, printable(present.Name), present.Version, present.Status)
			return present.ID, nil
		}
		if err := s.confirm(*present, c.Yes, "change the name in the file"); err != nil {
			return uuid.Nil, err
		}
		push = workflowsPush{target: c.target, Workflow: present.ID.String(), At: present.Version}
	}
	saved, _, err := push.save(s, file)
	return saved.ID, err
}

// workflowsWatch shows a run. Exit code 0 means that it is COMPLETED.
type workflowsWatch struct {
	target
	RunID uuid.UUID `arg:"" name:"run" help:"ID of the run."`
}

func (c *workflowsWatch) Run(s *session) error {
	weft, err := c.caller(s)
	if err != nil {
		return err
	}
	return weft.watch(s, c.RunID, -1)
}

// workflowsSignal sends a signal to a run.
type workflowsSignal struct {
	target
	RunID   uuid.UUID `arg:"" name:"run" help:"ID of the run."`
	Signal  string    `arg:"" help:"Name of the signal."`
	Payload string    `default:"{}" placeholder:"JSON" help:"Payload of the signal, a JSON object: JSON, @FILE, or - for stdin."`
}

// signalName matches the signal names that a path can contain.
var signalName = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)

func (c *workflowsSignal) Run(s *session) error {
	if len(c.Signal) > 200 || !signalName.MatchString(c.Signal) {
		return fmt.Errorf("%q is not a valid signal name: use 1 to 200 letters, digits and . _ ~ -", c.Signal)
	}
	payload, err := readObject("--payload", c.Payload, s.stdin)
	if err != nil {
		return err
	}
	path := runsPath + "/" + c.RunID.String() + "/signals/" + url.PathEscape(c.Signal)
	weft, err := c.caller(s)
	if err != nil {
		return err
	}
	var kept api.RunSignal
	raw, err := weft.exchange(s, http.MethodPut, path, payload, nil, &kept)
	if err != nil {
		return err
	}
	switch {
	case !sameJSON(kept.Payload, payload):
		s.note("The run already had this signal, and keeps the payload of the first signal.")
	case kept.WaitingFor != nil && !slices.Contains(kept.WaitingFor, c.Signal): // nil: an older service
		s.note("%s", unawaited(c.RunID, c.Signal, kept.WaitingFor))
	}
	return printJSON(s.stdout, raw)
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

// workflowsCancel cancels a run.
type workflowsCancel struct {
	target
	RunID     uuid.UUID `arg:"" name:"run" help:"ID of the run."`
	Immediate bool      `help:"Stop current attempts instead of letting them finish."`
	Reason    string    `placeholder:"TEXT" help:"Reason recorded on the run."`
}

func (c *workflowsCancel) Run(s *session) error {
	request := api.CancelWorkflowRunRequest{Reason: optional(c.Reason)}
	if c.Immediate {
		request.Mode = new(api.CancelModeImmediate)
	}
	weft, err := c.caller(s)
	if err != nil {
		return err
	}
	var run api.WorkflowRun
	if _, err := weft.exchange(s, http.MethodPut, runsPath+"/"+c.RunID.String()+"/cancellation", request, nil, &run); err != nil {
		return err
	}
	if run.FinishedAt != nil {
		s.note("The run has already finished: %s.", run.Status)
		return nil
	}
	s.note("No new stage starts. The run is CANCELED when its last stage has stopped. To follow the run: weft workflows watch %s", c.RunID)
	return nil
}
