package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sergi/go-diff/diffmatchpatch"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/local/workflowfile"
)

// workflowsPath is the path of workflows.
const workflowsPath = "/v1/sdk/workflows"

// exportsPath is the path of workflows in file form.
const exportsPath = "/v1/sdk/workflow-exports"

// workflowsCommand saves workflows from files, and runs them.
type workflowsCommand struct {
	List workflowsList `cmd:"" help:"List the workflows."`
	Get  oneWorkflow   `cmd:"" help:"Print the record of a workflow."`
	New  workflowsNew  `cmd:"" help:"Write a workflow file from a recipe, or list the recipes."`
	Push workflowsPush `cmd:"" help:"Create a workflow from a file, or replace one."`
	Pull workflowsPull `cmd:"" help:"Print a workflow, or write it to a file that weft workflows push accepts."`
	Diff workflowsDiff `cmd:"" help:"Compare a file with the saved workflow."`

	Validate workflowsValidate `cmd:"" help:"Check workflow files without saving them. Exit code 6 if a file has faults."`

	Quote   workflowsQuote `cmd:"" help:"Print what a run of a workflow costs."`
	Pause   oneWorkflow    `cmd:"" help:"Pause a workflow: start no runs until it is resumed."`
	Resume  oneWorkflow    `cmd:"" help:"Resume a workflow that is paused or archived."`
	Archive oneWorkflow    `cmd:"" help:"Archive a workflow: start no more runs. Its versions and runs are kept."`

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
	Workflow       string `arg:"" optional:"" help:"Key, name or ID of the workflow to replace. Without this argument, the workflow with the key in the file is replaced, otherwise the one with its name, or a new one is created."`
	At             int32  `placeholder:"N" help:"Replace the workflow only if this is its current version."`
	Yes            bool   `help:"Replace the workflow with the name in the file without asking."`
	New            bool   `help:"Create a new workflow, even if one has the name in the file."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"Create a new workflow. A repeat with the same key creates nothing new."`
}

func (c *workflowsPush) Run(s caller) error {
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
func (c *workflowsPush) save(s caller, file workflowFile, otherwise string) (saved api.Workflow, raw []byte, err error) {
	present, err := c.present(s, file)
	if err != nil {
		return saved, nil, err
	}
	method, path, header := http.MethodPost, workflowsPath, preferStrict()
	if present != nil {
		method, path = http.MethodPut, workflowsPath+"/"+present.ID.String()
		if c.At == 0 {
			saved, raw, err = s.unchanged(file, path)
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
	if raw, err = s.exchange(method, path, file.JSON, header, &saved); err != nil {
		return saved, nil, file.locate(err)
	}
	file.report(s.session, saved)
	return saved, raw, nil
}

// present returns the workflow that the file replaces, or nil for a new one. Its version is 0 if the
// workflow is replaced whatever its version.
func (c *workflowsPush) present(s caller, file workflowFile) (*item, error) {
	switch {
	case c.Workflow != "":
		id, err := s.workflow(c.Workflow)
		return &item{ID: id}, err
	case c.New || c.IdempotencyKey != "":
		return nil, nil
	}
	found, all, err := s.named(workflowsPath, "workflow", file.name())
	if key := file.Key(); key != "" {
		if at := slices.IndexFunc(all, func(one item) bool { return one.Key == key }); at >= 0 {
			return &all[at], nil
		}
	}
	return found, err
}

// unchanged returns the record of a saved workflow if it has the content of the file, else nil.
func (s caller) unchanged(file workflowFile, path string) (saved api.Workflow, raw []byte, err error) {
	export, err := s.get(exportsPath + strings.TrimPrefix(path, workflowsPath))
	if err != nil || !file.Same(export) {
		return saved, nil, err
	}
	if raw, err = s.exchange(http.MethodGet, path, nil, nil, &saved); err == nil {
		s.note("%s  %s  version %d  %s  unchanged", saved.ID, printable(saved.Name), saved.Version, saved.Status)
	}
	return saved, raw, err
}

// workflowsPull prints a workflow.
type workflowsPull struct {
	oneWorkflow
	At  int32  `placeholder:"N" help:"Version to print. Default: the current version."`
	Out string `placeholder:"FILE" help:"File to write to: YAML if its name ends with .yaml or .yml, else JSON."`
}

func (c *workflowsPull) Run(s caller) error {
	path := exportsPath + c.path()
	if c.At != 0 {
		path += "?version=" + strconv.Itoa(int(c.At))
	}
	raw, err := s.get(path)
	if err != nil {
		return err
	}
	stdout := c.Out == "" || c.Out == "-"
	var file bytes.Buffer
	if stdout || isYAML(c.Out) {
		text, err := workflowfile.Write(raw)
		if err != nil {
			return err
		}
		file.Write(text)
	} else if err := printJSON(&file, raw); err != nil {
		return err
	}
	if stdout {
		return s.print(raw, func(out io.Writer) error { _, err := out.Write(file.Bytes()); return err })
	}
	if err := os.WriteFile(c.Out, file.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the workflow: %w", err)
	}
	s.note("written to %s", c.Out)
	return nil
}

// oneWorkflow is a command on one workflow.
type oneWorkflow struct {
	target
	Workflow string `arg:"" help:"Key, name or ID of the workflow."`
}

// resolve sets the ID of the workflow.
func (c *oneWorkflow) resolve(s caller) error {
	id, err := s.workflow(c.Workflow)
	c.Workflow = id.String()
	return err
}

// path returns the path of the workflow below its collection.
func (c oneWorkflow) path() string { return "/" + c.Workflow }

// printWorkflow prints a workflow. weft workflows pull prints its definition.
func (s caller) printWorkflow(raw []byte, err error) error {
	return s.printAnswer(raw, err, "Name=name", "Key=key", "Status=status", "Version=version", "ID=id", "Description=description", "Created at=createdAt", "Updated at=updatedAt")
}

// Run does what the name of the command says.
func (c *oneWorkflow) Run(s caller) error {
	switch s.command.Name {
	case "pause":
		return c.setStatus(s, api.WorkflowStatusPAUSED)
	case "resume":
		return c.setStatus(s, api.WorkflowStatusACTIVE)
	case "archive":
		return c.archive(s)
	}
	return s.printWorkflow(s.get(workflowsPath + c.path()))
}

type workflowsQuote struct {
	oneWorkflow
	At int32 `placeholder:"N" help:"Version to quote. Default: the current version."`
}

func (c *workflowsQuote) Run(s caller) error {
	var quote api.RunQuote
	raw, err := s.exchange(http.MethodPost, workflowsPath+c.path()+"/quote", api.QuoteWorkflowRequest{Version: optional(c.At)}, nil, &quote)
	if err != nil {
		return err
	}
	for _, one := range quote.UnknownBounds {
		s.note("The cost of %s has no known bound: %s.", printable(one.ComponentID), printable(string(one.Reason)))
	}
	return s.printRecord(raw, "Minimum credits=minimumCredits", "Maximum credits=maximumCredits", "Version=workflowVersion", "Workflow ID=workflowId")
}

// setStatus saves the current version again with another status.
func (c oneWorkflow) setStatus(s caller, status api.WorkflowStatus) error {
	var current api.Workflow
	raw, err := s.exchange(http.MethodGet, workflowsPath+c.path(), nil, nil, &current)
	if err != nil {
		return err
	}
	if current.Status == status {
		s.note("The workflow is already %s.", status)
		return s.printWorkflow(raw, nil)
	}
	var definition map[string]json.RawMessage
	if _, err := s.exchange(http.MethodGet, exportsPath+c.path(), nil, nil, &definition); err != nil {
		return err
	}
	definition["status"] = json.RawMessage(strconv.Quote(string(status)))
	header := http.Header{"If-Match": {strconv.Quote(strconv.Itoa(int(current.Version)))}}
	return s.printWorkflow(s.exchange(http.MethodPut, workflowsPath+c.path(), definition, header, &current))
}

// archive archives the workflow.
func (c oneWorkflow) archive(s caller) error {
	raw, err := s.ask(http.MethodDelete, workflowsPath+c.path(), nil, nil)
	if err != nil {
		return err
	}
	s.note("Runs in progress continue. To restore the workflow: weft workflows resume %s", c.Workflow)
	return s.printWorkflow(raw, nil)
}

// workflowsDiff compares a file with the saved workflow. The exit code is 1 if they differ.
type workflowsDiff struct {
	target
	File     string `arg:"" help:"YAML or JSON file with the workflow, or - for stdin."`
	Workflow string `arg:"" optional:"" help:"Key, name or ID of the workflow. Default: the key or the name in the file."`
}

func (c *workflowsDiff) Run(s caller) error {
	file, err := readWorkflow(c.File, s.stdin)
	if err != nil {
		return err
	}
	if c.Workflow == "" {
		c.Workflow = cmp.Or(file.Key(), file.name())
	}
	id, err := s.workflow(c.Workflow)
	if err != nil {
		return err
	}
	saved, err := s.get(exportsPath + "/" + id.String())
	if err != nil {
		return err
	}
	lines := []string{}
	if !file.Same(saved) {
		old, err := workflowfile.Write(file.Without(saved))
		if err != nil {
			return err
		}
		own, err := workflowfile.Write(file.JSON)
		if err != nil {
			return err
		}
		lines = difference(string(old), string(own))
	}
	err = s.printAs(lines, func(out io.Writer) error {
		for _, line := range lines {
			if _, err := fmt.Fprintln(out, printable(line)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || file.Same(saved) {
		return err
	}
	return errQuiet
}

// difference returns the lines of both texts: with - those that only the old text has, with + those that
// only the new text has.
func difference(old, own string) (lines []string) {
	differ := diffmatchpatch.New()
	differ.DiffTimeout = 0 // exact
	first, second, all := differ.DiffLinesToRunes(old, own)
	sign := map[diffmatchpatch.Operation]string{diffmatchpatch.DiffDelete: "- ", diffmatchpatch.DiffEqual: "  ", diffmatchpatch.DiffInsert: "+ "}
	for _, d := range differ.DiffCharsToLines(differ.DiffMainRunes(first, second, false), all) {
		for line := range strings.Lines(d.Text) {
			lines = append(lines, sign[d.Type]+strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}
