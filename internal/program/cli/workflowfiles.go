package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/workflowfile"
	"github.com/weft-automation/weft/internal/workflow"
)

// workflowFile is a workflow that was read from a file.
type workflowFile struct {
	workflowfile.File
	path string
}

// isYAML reports whether the name of a file is the name of a YAML file.
func isYAML(path string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(path)))
}

// readWorkflow reads a workflow in YAML or JSON, from a file or, if the path is -, from stdin.
func readWorkflow(path string, stdin io.Reader) (workflowFile, error) {
	var raw []byte
	var err error
	if path == "-" && stdin != nil {
		raw, err = io.ReadAll(stdin)
	} else {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return workflowFile{}, usage("%s: %w", path, err)
	}
	read := workflowfile.ReadJSON
	if start := bytes.TrimSpace(raw); isYAML(path) || path == "-" && len(start) > 0 && start[0] != '{' && start[0] != '[' {
		read = workflowfile.Read
	}
	file := workflowFile{path: path}
	if file.File, err = read(raw); err != nil {
		return file, usage("%s: %w", path, err)
	}
	return file, nil
}

// name returns the name of the workflow, or "" if the file has none.
func (f workflowFile) name() string {
	var named struct{ Name string }
	_ = json.Unmarshal(f.JSON, &named) // the service reports a name in another form
	return named.Name
}

// place adds the file and the line to the name of what a JSON pointer refers to.
func (f workflowFile) place(pointer string) string {
	if line := f.Line(pointer); line > 0 && f.path != "-" {
		return fmt.Sprintf("%s:%d: %s", f.path, line, f.Name(pointer))
	}
	return f.Name(pointer)
}

// locate adds the lines of the file to the errors of a response.
func (f workflowFile) locate(err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return err
	}
	for i, one := range problem.Errors {
		problem.Errors[i].Pointer = f.place(one.Pointer)
		if len(problem.Errors) == 1 { // its text is the detail
			problem.Detail = strings.Replace(problem.Detail, one.Pointer, problem.Errors[i].Pointer, 1)
		}
	}
	return err
}

// report prints the warnings about the workflow, with the lines of the file.
func (f workflowFile) report(s *session, saved api.Workflow) {
	s.note("%s  %s  version %d  %s", saved.ID, printable(saved.Name), saved.Version, saved.Status)
	if saved.Warnings == nil {
		return
	}
	for _, w := range *saved.Warnings {
		s.note("warning: %s  %s  %s", printable(f.place(w.Pointer)), printable(w.Code), printable(w.Message))
	}
}

// confirm asks on a terminal whether to replace a workflow. Without a terminal, it requires --yes.
// otherwise is the alternative to that.
func (s *session) confirm(one item, yes bool, otherwise string) error {
	what := fmt.Sprintf("version %d of %s (%s)", one.Version, printable(one.Name), one.ID)
	switch {
	case yes:
		return nil
	case !terminal(s.stdin) || !terminal(s.stderr):
		return usage("a workflow with this name exists. Use --yes to replace %s, or %s", what, otherwise)
	}
	_, _ = fmt.Fprintf(s.stderr, "This replaces %s. Continue? [y/N] ", what)
	answer, err := bufio.NewReader(s.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing was replaced")
	}
	return nil
}

// workflowsNew writes a workflow file from a recipe. Without a recipe, it lists them.
type workflowsNew struct {
	File string `arg:"" optional:"" help:"YAML file to create. Default: stdout."`
	From string `placeholder:"RECIPE" help:"Recipe to start from. Without --from, the recipes are listed."`
}

func (c *workflowsNew) Run(s *session) error {
	all, err := workflowfile.Recipes()
	if err != nil {
		return err
	}
	if c.From == "" {
		if c.File != "" {
			return usage("set --from to a recipe. To list the recipes: weft workflows new")
		}
		return s.printAll(all, view{columns: "RECIPE=Name WHAT_IT_DOES=Summary"})
	}
	at := slices.IndexFunc(all, func(one workflowfile.Recipe) bool { return one.Name == c.From })
	if at < 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		return usage("--from: unknown recipe %q. The recipes are %s", printable(c.From), strings.Join(names, ", "))
	}
	if c.File == "" {
		_, err := io.WriteString(s.stdout, all[at].Text)
		return err
	}
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // never replaces a file
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	_, err = io.WriteString(file, all[at].Text)
	if err = errors.Join(err, file.Close()); err == nil {
		s.note("written to %s. Its comments say what to set. To run it: weft run %s", c.File, c.File)
	}
	return err
}

// workflowsValidate checks files without saving them. The exit code is that of a rejected request if a
// file has faults.
type workflowsValidate struct {
	target
	Files []string `arg:"" name:"file" help:"YAML or JSON files with workflows, or - for stdin."`
}

// spot is a fault or a warning, with its place in the file.
type spot struct {
	Line    int    `json:"line"`   // 0: unknown
	Column  int    `json:"column"` // 0: unknown
	Pointer string `json:"pointer"`
	Name    string `json:"name"` // in the file, such as components.pay.after
	Code    string `json:"code"`
	Message string `json:"message"`
}

// validated is the result for a file.
type validated struct {
	File     string               `json:"file"`
	Faults   []spot               `json:"faults"`
	Warnings []spot               `json:"warnings"`
	Quote    *api.DefinitionQuote `json:"quote"`

	definition json.RawMessage
}

// key returns the key that the workflow of a file has or will have, or "".
func (v validated) key() string {
	var given struct{ Key, Name string }
	_ = json.Unmarshal(v.definition, &given) // faults are reported
	return cmp.Or(given.Key, workflow.KeyOf(given.Name))
}

// names returns the value of the definition at the place of a warning, if it is the key of a child workflow.
func (v validated) names(w spot) string {
	var of struct {
		Components []struct{ Config struct{ Workflow string } }
	}
	var at int
	_ = json.Unmarshal(v.definition, &of)
	if _, err := fmt.Sscanf(w.Pointer, "/components/%d/config/workflow", &at); err != nil || w.Code != "WORKFLOW_NOT_FOUND" || at >= len(of.Components) {
		return ""
	}
	return of.Components[at].Config.Workflow
}

// withoutEachOther removes the warnings about workflows that are in another of the files.
func withoutEachOther(all []validated) {
	keys := map[string]bool{}
	for _, one := range all {
		keys[one.key()] = true
	}
	delete(keys, "")
	for i, one := range all {
		all[i].Warnings = slices.DeleteFunc(one.Warnings, func(w spot) bool { return keys[one.names(w)] })
	}
}

func (c *workflowsValidate) Run(s caller) error {
	all, failed := []validated{}, false
	for _, path := range c.Files {
		one, err := s.validate(path)
		if err != nil {
			return err
		}
		all, failed = append(all, one), failed || len(one.Faults) > 0
	}
	withoutEachOther(all)
	err := s.printAs(all, func(out io.Writer) error {
		var text strings.Builder
		for _, one := range all {
			one.write(&text)
		}
		_, err := io.WriteString(out, text.String())
		return err
	})
	if err == nil && failed {
		err = coded{errQuiet, exitRejected}
	}
	return err
}

// validate checks a file. It returns an error if the file was not checked.
func (s caller) validate(path string) (validated, error) {
	one := validated{File: path, Faults: []spot{}, Warnings: []spot{}}
	file, err := readWorkflow(path, s.stdin)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		return one, err
	}
	if err != nil {
		faults, found := errors.AsType[workflowfile.Faults](err)
		if !found {
			faults = workflowfile.Faults{{Message: strings.TrimPrefix(err.Error(), path+": ")}}
		}
		for _, f := range faults {
			one.Faults = append(one.Faults, spot{Line: f.Line, Column: f.Column, Name: f.Name, Code: "INVALID_FILE", Message: f.Message})
		}
		if file.JSON == nil {
			return one, nil
		}
	}
	one.definition = file.JSON
	var answer api.WorkflowValidation
	_, err = s.exchange(http.MethodPost, workflowsPath+"/validate", file.JSON, preferStrict(), &answer)
	if problem, ok := errors.AsType[*client.Problem](err); ok && (problem.Status == http.StatusBadRequest || problem.Status == http.StatusUnprocessableEntity) && len(problem.Errors) > 0 {
		answer.Faults, err = problem.Errors, nil // without the form of a workflow
	}
	broken := one.Faults
	for _, f := range answer.Faults {
		found := file.spot(f.Pointer, f.Code, f.Message)
		lost := len(broken) > 0 && f.Code == "UNREACHABLE" // by an edge that could not be read
		if !lost && !slices.ContainsFunc(broken, found.follows) {
			one.Faults = append(one.Faults, found)
		}
	}
	if len(broken) > 0 { // the service checked another file than the one that was meant
		return one, err
	}
	for _, w := range answer.Warnings {
		one.Warnings = append(one.Warnings, file.spot(w.Pointer, w.Code, w.Message))
	}
	one.Quote = answer.Quote
	return one, err
}

func (f workflowFile) spot(pointer, code, message string) spot {
	line, column := f.Place(pointer)
	return spot{line, column, pointer, f.Name(pointer), code, message}
}

// follows reports whether a fault is about a value that the file does not have because of another fault.
func (s spot) follows(cause spot) bool {
	inside, found := strings.CutPrefix(s.Name, cause.Name)
	return found && cause.Name != "" && (inside == "" || inside[0] == '.' || inside[0] == '[')
}

// write writes a line for each spot in the form of compilers, FILE:LINE:COLUMN: MESSAGE.
func (v validated) write(out *strings.Builder) {
	line := func(f spot, kind string) {
		out.WriteString(printable(v.File))
		for _, number := range []int{f.Line, f.Column} {
			if number > 0 {
				fmt.Fprintf(out, ":%d", number)
			}
		}
		place := ""
		if f.Name != "" {
			place = " (" + printable(f.Name) + ")"
		}
		fmt.Fprintf(out, ": %s%s %s%s\n", kind, printable(f.Code), printable(f.Message), place)
	}
	for _, f := range v.Faults {
		line(f, "")
	}
	for _, w := range v.Warnings {
		line(w, "warning: ")
	}
	if len(v.Faults) == 0 {
		fmt.Fprintf(out, "%s: no faults\n", printable(v.File))
	}
}
