package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sergi/go-diff/diffmatchpatch"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/local/workflowfile"
)

// oneWorkflow is the argument of commands on one workflow.
type oneWorkflow struct {
	target
	Workflow string `arg:"" help:"Name or ID of the workflow."`
}

// resolve sets the ID of the workflow.
func (c *oneWorkflow) resolve(s caller) error {
	id, err := s.workflow(c.Workflow)
	c.Workflow = id.String()
	return err
}

// path returns the path of the workflow below its collection.
func (c oneWorkflow) path() string { return "/" + c.Workflow }

// workflowFields are the fields in the table of a workflow. weft workflows pull prints the definition.
var workflowFields = []string{"Name=name", "Status=status", "Version=version", "ID=id", "Description=description", "Created at=createdAt", "Updated at=updatedAt"}

type workflowsGet struct{ oneWorkflow }

func (c *workflowsGet) Run(s caller) error {
	raw, err := s.get(workflowsPath + c.path())
	return s.printAnswer(raw, err, workflowFields...)
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

type workflowsPause struct{ oneWorkflow }

func (c *workflowsPause) Run(s caller) error { return c.setStatus(s, api.WorkflowStatusPAUSED) }

type workflowsResume struct{ oneWorkflow }

func (c *workflowsResume) Run(s caller) error { return c.setStatus(s, api.WorkflowStatusACTIVE) }

// setStatus saves the current version again with another status.
func (c oneWorkflow) setStatus(s caller, status api.WorkflowStatus) error {
	var current api.Workflow
	raw, err := s.exchange(http.MethodGet, workflowsPath+c.path(), nil, nil, &current)
	if err != nil {
		return err
	}
	if current.Status == status {
		s.note("The workflow is already %s.", status)
		return s.printRecord(raw, workflowFields...)
	}
	var definition map[string]json.RawMessage
	if _, err := s.exchange(http.MethodGet, exportsPath+c.path(), nil, nil, &definition); err != nil {
		return err
	}
	definition["status"] = json.RawMessage(strconv.Quote(string(status)))
	header := http.Header{"If-Match": {strconv.Quote(strconv.Itoa(int(current.Version)))}}
	if raw, err = s.exchange(http.MethodPut, workflowsPath+c.path(), definition, header, &current); err != nil {
		return err
	}
	return s.printRecord(raw, workflowFields...)
}

type workflowsArchive struct{ oneWorkflow }

func (c *workflowsArchive) Run(s caller) error {
	raw, err := s.ask(http.MethodDelete, workflowsPath+c.path(), nil, nil)
	if err != nil {
		return err
	}
	s.note("Runs in progress continue. To restore the workflow: weft workflows resume %s", c.Workflow)
	return s.printRecord(raw, workflowFields...)
}

// workflowsDiff compares a file with the saved workflow. The exit code is 1 if they differ.
type workflowsDiff struct {
	target
	File     string `arg:"" help:"YAML or JSON file with the workflow, or - for stdin."`
	Workflow string `arg:"" optional:"" help:"Name or ID of the workflow. Default: the name in the file."`
}

// Help returns the additional text of --help.
func (c *workflowsDiff) Help() string {
	return "Lines of the saved workflow only start with -, and lines of the file only with +. The exit code is 0 if they have the same content, and 1 if they differ."
}

func (c *workflowsDiff) Run(s caller) error {
	file, err := readWorkflow(c.File, s.stdin)
	if err != nil {
		return err
	}
	if c.Workflow == "" {
		c.Workflow = file.name()
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
		old, err := workflowfile.Write(saved)
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
