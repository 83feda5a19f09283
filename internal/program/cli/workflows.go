package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/workflowfile"
)

// workflowsPath is the path of workflows.
const workflowsPath = "/v1/sdk/workflows"

// exportsPath is the path of workflows in file form.
const exportsPath = "/v1/sdk/workflow-exports"

// workflowsCommand saves workflows from files, and runs them.
type workflowsCommand struct {
	List workflowsList `cmd:"" help:"List the workflows."`
	Get  workflowsGet  `cmd:"" help:"Print the record of a workflow."`
	New  workflowsNew  `cmd:"" help:"Write a workflow file from a recipe, or list the recipes."`
	Push workflowsPush `cmd:"" help:"Create a workflow from a file, or replace one."`
	Pull workflowsPull `cmd:"" help:"Print a workflow, or write it to a file that weft workflows push accepts."`
	Diff workflowsDiff `cmd:"" help:"Compare a file with the saved workflow."`

	Quote   workflowsQuote   `cmd:"" help:"Print what a run of a workflow costs."`
	Pause   workflowsPause   `cmd:"" help:"Pause a workflow: start no runs until it is resumed."`
	Resume  workflowsResume  `cmd:"" help:"Resume a workflow that is paused or archived."`
	Archive workflowsArchive `cmd:"" help:"Archive a workflow: start no more runs. Its versions and runs are kept."`

	Run    workflowsRun `cmd:"" hidden:"" help:"Start a run of a workflow."`
	Watch  runsWatch    `cmd:"" hidden:"" help:"Follow a run until it finishes."`
	Signal runsSignal   `cmd:"" hidden:"" help:"Send a signal to a run."`
	Cancel runsCancel   `cmd:"" hidden:"" help:"Cancel a run."`
	Runs   runsList     `cmd:"" hidden:"" help:"List the runs."`
}

// workflowsPush saves the workflow of a file.
type workflowsPush struct {
	target
	File           string `arg:"" help:"YAML or JSON file with the workflow, or - for stdin."`
	Workflow       string `arg:"" optional:"" help:"Name or ID of the workflow to replace. Without this argument, the workflow with the name in the file is replaced, or a new one is created."`
	At             int32  `placeholder:"N" help:"Replace the workflow only if this is its current version."`
	Yes            bool   `help:"Replace the workflow with the name in the file without asking."`
	New            bool   `help:"Create a new workflow, even if one has the name in the file."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"Create a new workflow. A repeat with the same key creates nothing new."`
}

func (c *workflowsPush) Run(s *session) error {
	if c.Workflow == "" && c.At != 0 || c.Workflow != "" && (c.IdempotencyKey != "" || c.New) {
		return usage("--at needs a workflow to replace; --idempotency-key and --new are for new workflows only")
	}
	file, err := readWorkflow(c.File, s.stdin)
	if err != nil {
		return err
	}
	saved, raw, err := c.save(s, file, "--new to create another workflow")
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		if terminal(s.stdout) { // the note on stderr has the ID
			return nil
		}
		_, err := fmt.Fprintln(out, saved.ID)
		return err
	})
}

// save saves the file and prints the warnings about it. It saves nothing if the workflow to replace
// has the same content. otherwise is the alternative to replacing a workflow.
func (c *workflowsPush) save(s *session, file workflowFile, otherwise string) (saved api.Workflow, raw []byte, err error) {
	weft, err := c.caller(s)
	if err != nil {
		return saved, nil, err
	}
	present, err := c.present(s, file)
	if err != nil {
		return saved, nil, err
	}
	method, path, header := http.MethodPost, workflowsPath, preferStrict()
	if present != nil {
		method, path = http.MethodPut, workflowsPath+"/"+present.ID.String()
		if c.At == 0 {
			saved, raw, err = weft.unchanged(s, file, path)
			if err != nil || raw != nil {
				return saved, raw, err
			}
		}
		if c.Workflow == "" {
			if err := s.confirm(*present, c.Yes, otherwise); err != nil {
				return saved, nil, err
			}
		}
		if version := cmp.Or(c.At, present.Version); version != 0 {
			header.Set("If-Match", strconv.Quote(strconv.Itoa(int(version))))
		}
	}
	if c.IdempotencyKey != "" {
		header.Set("Idempotency-Key", c.IdempotencyKey)
	}
	if raw, err = weft.exchange(s, method, path, file.JSON, header, &saved); err != nil {
		return saved, nil, file.locate(err)
	}
	file.report(s, saved)
	return saved, raw, nil
}

// present returns the workflow that the file replaces, or nil for a new one. Its version is 0 if the
// workflow is replaced whatever its version.
func (c *workflowsPush) present(s *session, file workflowFile) (*item, error) {
	switch {
	case c.Workflow != "":
		id, err := c.workflow(s, c.Workflow)
		return &item{ID: id}, err
	case c.New || c.IdempotencyKey != "":
		return nil, nil
	}
	found, _, err := c.named(s, workflowsPath, "workflow", file.name())
	return found, err
}

// unchanged returns the record of a saved workflow if it has the content of the file, else nil.
func (c caller) unchanged(s *session, file workflowFile, path string) (saved api.Workflow, raw []byte, err error) {
	export, err := c.ask(s, http.MethodGet, exportsPath+strings.TrimPrefix(path, workflowsPath), nil, nil)
	if err != nil || !file.Same(export) {
		return saved, nil, err
	}
	if raw, err = c.exchange(s, http.MethodGet, path, nil, nil, &saved); err == nil {
		s.note("%s  %s  version %d  %s  unchanged", saved.ID, printable(saved.Name), saved.Version, saved.Status)
	}
	return saved, raw, err
}

// workflowsPull prints a workflow.
type workflowsPull struct {
	oneWorkflow
	At  int32  `placeholder:"N" help:"Version to print. Default: the current version."`
	Out string `placeholder:"FILE" help:"File to write to, instead of stdout: YAML if its name ends with .yaml or .yml, else JSON."`
}

func (c *workflowsPull) Run(s *session) error {
	path := exportsPath + c.path()
	if c.At != 0 {
		path += "?version=" + strconv.Itoa(int(c.At))
	}
	raw, err := c.ask(s, http.MethodGet, path)
	if err != nil {
		return err
	}
	if c.Out == "" {
		return s.print(raw, func(out io.Writer) error { return printJSON(out, raw) })
	}
	var file bytes.Buffer
	if isYAML(c.Out) {
		text, err := workflowfile.Write(raw)
		if err != nil {
			return err
		}
		file.Write(text)
	} else if err := printJSON(&file, raw); err != nil {
		return err
	}
	if err := os.WriteFile(c.Out, file.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the workflow: %w", err)
	}
	s.note("written to %s", c.Out)
	return nil
}

// caller is a client with its credentials.
type caller struct {
	*client.Client
	credentials client.Credentials
}

// caller reads the credentials and creates the client, which warns of what the service ignored.
func (t target) caller(s *session) (caller, error) {
	credentials, signer, err := t.signer(s)
	if err != nil {
		return caller{}, err
	}
	weft, err := client.New(credentials.BaseURL, signer, s.transport())
	if err != nil {
		return caller{}, usage("--base-url: %w", err)
	}
	warned := ""
	weft.Ignored = func(names string) {
		if names != warned { // a command may repeat a request
			s.note("Warning: the service does not know these parts of the request and ignored them: %s. Check the spelling, or upgrade the service.", printable(names))
		}
		warned = names
	}
	return caller{weft, credentials}, nil
}

// preferStrict requests that unknown fields are rejected (decisions 1.1), because they are probably
// typing errors.
func preferStrict() http.Header { return http.Header{"Prefer": {"handling=strict"}} }

// ask sends a signed request and returns the body of the response.
func (c caller) ask(s *session, method, path string, body []byte, header http.Header) ([]byte, error) {
	raw, err := c.Call(s.ctx, method, path, body, header)
	if err != nil {
		return nil, s.explain(err, c.credentials)
	}
	return raw, nil
}

// exchange is ask with a JSON body, nil for none, and a decoded response.
func (c caller) exchange(s *session, method, path string, request any, header http.Header, into any) (raw []byte, err error) {
	var body []byte
	if request != nil {
		if body, err = strictjson.Encode(request); err != nil {
			return nil, err
		}
	}
	if raw, err = c.ask(s, method, path, body, header); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return raw, nil
}

// replace reads an object of type T, sends what with returns for it to the same path, and returns the
// object that the service then has.
func replace[T any](s *session, t target, path string, with func(T) any) (one T, raw []byte, err error) {
	if _, err = t.exchange(s, http.MethodGet, path, nil, nil, &one); err == nil {
		raw, err = t.exchange(s, http.MethodPut, path, with(one), nil, &one)
	}
	return one, raw, err
}

// exchange is for commands that send a single request.
func (t target) exchange(s *session, method, path string, request any, header http.Header, into any) (raw []byte, err error) {
	weft, err := t.caller(s)
	if err != nil {
		return nil, err
	}
	return weft.exchange(s, method, path, request, header, into)
}

// ask is for commands that send a single request without a body.
func (t target) ask(s *session, method, path string) ([]byte, error) {
	caller, err := t.caller(s)
	if err != nil {
		return nil, err
	}
	return caller.ask(s, method, path, nil, nil)
}

// idempotencyHeader returns the header of an Idempotency-Key, or nil for none.
func idempotencyHeader(key string) http.Header {
	if key == "" {
		return nil
	}
	return http.Header{"Idempotency-Key": {key}}
}

// delete deletes an object of the service, and prints the note.
func (t target) delete(s *session, path, note string, args ...any) error {
	if _, err := t.ask(s, http.MethodDelete, path); err != nil {
		return err
	}
	s.note(note, args...)
	return nil
}
