package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/workflowfile"
)

// look has the flags of every command: how to print the result, and what else to print.
type look struct {
	Output  string `short:"o" default:"table" enum:"table,json,jsonl,yaml" placeholder:"FORMAT" help:"Format of the result: table, json, jsonl or yaml (${default})."`
	JQ      string `name:"jq" placeholder:"EXPR" help:"Print the values that a jq expression selects from the record or the list that -o json prints, such as .id or .[].id."`
	Quiet   bool   `help:"Print only results and errors."`
	Verbose bool   `help:"Print more, such as each request to the service."`
	NoColor bool   `name:"no-color" help:"Don't use colors ($$NO_COLOR)."`
}

// compile prepares the jq expression. It reads neither files nor environment variables.
func (l look) compile() (*gojq.Code, error) {
	if l.JQ == "" {
		return nil, nil //nolint:nilnil // without the flag, there is no expression
	}
	query, err := gojq.Parse(l.JQ)
	if err == nil {
		code, wrong := gojq.Compile(query)
		if err = wrong; err == nil {
			return code, nil
		}
	}
	return nil, usage("--jq: %w", err)
}

// tabular reports whether results are tables for people, which may say more than the JSON.
func (s *session) tabular() bool { return s.query == nil && s.Output == "table" }

// print writes a result to stdout: its JSON in the format of the flags, or by draw as a table. Every
// command that returns something calls it.
func (s *session) print(raw []byte, draw func(io.Writer) error) error {
	var text bytes.Buffer
	var err error
	switch {
	case s.query != nil:
		err = s.filter(&text, raw)
	case s.Output == "table" || s.Output == "":
		err = draw(&text)
	default:
		err = writeAs(&text, s.Output, raw)
	}
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(text.Bytes())
	return err
}

// filter writes the values that the jq expression selects. Without --output, strings are written
// without quotes, and other values on a line each.
func (s *session) filter(out *bytes.Buffer, raw []byte) error {
	value, err := strictjson.Decode(raw)
	if err != nil {
		return err
	}
	for values := s.query.RunWithContext(s.ctx, value); ; {
		one, more := values.Next()
		if !more {
			return nil
		}
		if failed, ok := one.(error); ok {
			return fmt.Errorf("--jq: %w", failed)
		}
		if text, ok := one.(string); ok && s.Output == "table" {
			if terminal(s.stdout) {
				text = printable(text)
			}
			out.WriteString(text + "\n")
			continue
		}
		selected, err := gojq.Marshal(one)
		if err != nil {
			return fmt.Errorf("--jq: %w", err)
		}
		format := s.Output
		if format == "table" {
			out.Write(append(selected, '\n'))
			continue
		}
		if err := writeAs(out, format, selected); err != nil {
			return err
		}
	}
}

// writeAs writes JSON as json, jsonl (a line for each item of a list) or yaml.
func writeAs(out *bytes.Buffer, format string, raw []byte) error {
	switch format {
	case "yaml":
		text, err := workflowfile.YAML(raw)
		out.Write(text)
		return err
	case "jsonl":
		items := []json.RawMessage{raw}
		if start := bytes.TrimSpace(raw); len(start) > 0 && start[0] == '[' {
			if err := json.Unmarshal(raw, &items); err != nil {
				return err
			}
		}
		for _, item := range items {
			out.Write(append(strictjson.Compact(item), '\n'))
		}
		return nil
	}
	return printJSON(out, raw)
}

// printRecord prints one object. Its table has all fields, or only those that are listed, each as
// Title=path.
func (s *session) printRecord(raw []byte, fields ...string) error {
	return s.print(raw, func(out io.Writer) error { return s.draw(out, raw, fields...) })
}

// draw writes one object for people: a line for each field, which is never cut, then the JSON of the
// fields that are objects or lists.
func (s *session) draw(out io.Writer, raw []byte, fields ...string) error {
	if len(fields) == 0 {
		names, err := strictjson.Names(raw)
		if err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		for _, name := range names {
			fields = append(fields, title(name)+"="+name)
		}
	}
	var nested bytes.Buffer
	lines := s.newTable(out)
	lines.width = 0
	for _, field := range fields {
		name, path, _ := strings.Cut(field, "=")
		value := at(raw, path)
		switch text := s.cell(value); {
		case text == "" || text == "{}":
		case text[0] == value[0] && (text[0] == '{' || text[0] == '['):
			nested.WriteString("\n" + name + "\n")
			if err := printJSON(&nested, value); err != nil {
				return err
			}
		default:
			lines.row(name, text)
		}
	}
	if err := lines.flush(); err != nil {
		return err
	}
	_, err := nested.WriteTo(out)
	return err
}

// drawNamed is draw for an object of a workflow: it adds the name of the workflow as the field workflow.
func (s caller) drawNamed(out io.Writer, raw []byte, fields ...string) error {
	named, err := s.withWorkflowNames([]json.RawMessage{raw})
	if err != nil {
		return err
	}
	return s.draw(out, named[0], fields...)
}

// printAnswer prints the response to a request like printRecord, or returns its error.
func (s *session) printAnswer(raw []byte, err error, fields ...string) error {
	if err != nil {
		return err
	}
	return s.printRecord(raw, fields...)
}

// printAs prints a value of this program: its JSON in the format of the flags, or by draw as a table.
func (s *session) printAs(value any, draw func(io.Writer) error) error {
	raw, err := strictjson.Encode(value)
	if err != nil {
		return err
	}
	return s.print(raw, draw)
}

// printText prints a line for people, or the value for programs.
func (s *session) printText(line string, value any) error {
	return s.printAs(value, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, line)
		return err
	})
}

// view describes the table of a list.
type view struct {
	columns string // TITLE=field, separated by spaces; nested fields have dots, and |text is for empty cells
	empty   string // what to do if the list is empty, or "" to print nothing
	first   string // columns that are left out first in a narrow terminal; by default the last one, if all items have names
}

// printAll prints a list. all is a slice of JSON objects, or of values of this program.
func (s *session) printAll(all any, v view) error {
	raw, err := strictjson.Encode(all)
	items := []json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(raw, &items)
	}
	if err != nil {
		return err
	}
	if items == nil { // the slice is nil
		raw = []byte("[]")
	}
	return s.print(raw, func(out io.Writer) error {
		if len(items) == 0 {
			if v.empty != "" {
				s.note("%s", v.empty)
			}
			return nil
		}
		var titles, paths []string
		for column := range strings.FieldsSeq(v.columns) {
			name, path, _ := strings.Cut(column, "=")
			titles, paths = append(titles, strings.ReplaceAll(name, "_", " ")), append(paths, path)
		}
		lines := s.newTable(out, titles...)
		if v.first == "" && paths[0] == "name" && !slices.ContainsFunc(items, func(one json.RawMessage) bool { return s.cell(at(one, "name")) == "" }) {
			lines.first = []int{len(titles) - 1}
		}
		for name := range strings.FieldsSeq(v.first) {
			lines.first = append(lines.first, slices.Index(titles, name))
		}
		for _, item := range items {
			cells := make([]string, len(paths))
			for i, path := range paths {
				path, empty, _ := strings.Cut(path, "|")
				cells[i] = cmp.Or(s.cell(at(item, path)), empty)
			}
			lines.row(cells...)
		}
		return lines.flush()
	})
}

// printList prints the items of a list of the service, and whether there are more.
func (s caller) printList(path string, filter url.Values, size size, v view) error {
	if len(filter) > 0 {
		v.empty = "Nothing matches. To list more, leave out a filter."
	}
	all, more, err := list[json.RawMessage](s, path, filter, size)
	if err != nil {
		return err
	}
	if s.tabular() && strings.Contains(v.columns, "=workflow ") && len(all) > 0 {
		if all, err = s.withWorkflowNames(all); err != nil {
			return err
		}
	}
	if err := s.printAll(all, v); err != nil {
		return err
	}
	if more {
		s.note("There are more items. To see them, use --all or a larger --limit.")
	}
	return nil
}

// at returns the field of an object at a path with dots. The path TOOK is the duration of a run
// or an execution, over all attempts.
func at(raw json.RawMessage, path string) json.RawMessage {
	if path == "TOOK" {
		var span struct {
			CreatedAt, UpdatedAt, FinishedAt *time.Time
			Status                           status.Execution
		}
		if json.Unmarshal(raw, &span) != nil {
			return nil
		}
		if span.FinishedAt == nil && span.Status.Terminal() { // an execution, whose last change is its end
			span.FinishedAt = span.UpdatedAt
		}
		if span.CreatedAt == nil || span.FinishedAt == nil {
			return nil
		}
		text, _ := json.Marshal(span.FinishedAt.Sub(*span.CreatedAt).String())
		return text
	}
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil
		}
		raw = object[name]
	}
	return raw
}

// cell formats a value for a table.
func (s *session) cell(raw json.RawMessage) string {
	var text string
	var texts []string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case string(raw) == "true":
		return "yes"
	case string(raw) == "false":
		return "no"
	case json.Unmarshal(raw, &texts) == nil:
		return printable(strings.Join(texts, ","))
	case json.Unmarshal(raw, &text) == nil:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return s.when(at)
		}
		return printable(text)
	}
	return printable(string(strictjson.Compact(raw)))
}

// title returns the title of a field: createdAt is Created at.
func title(name string) string {
	var words strings.Builder
	for i, r := range name {
		switch upper := r >= 'A' && r <= 'Z'; {
		case i == 0:
			words.WriteString(strings.ToUpper(string(r)))
		case upper && name[i-1] >= 'a' && name[i-1] <= 'z':
			words.WriteString(" " + strings.ToLower(string(r)))
		default:
			words.WriteRune(r)
		}
	}
	return words.String()
}

func printJSON(w io.Writer, raw []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("the response is not JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}
