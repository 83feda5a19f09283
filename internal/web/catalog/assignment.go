package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/gen/api"
)

// Read parses the text that a user typed for a field and returns a JSON value. If the field accepts
// only strings, the value is the text as a string. Otherwise it is the text parsed as JSON, or the
// text as a string if the text isn't JSON and the field accepts strings. Read returns an error if
// the text isn't JSON and the field doesn't accept strings.
func (f Field) Read(text string) (json.RawMessage, error) {
	texts := len(f.Kinds) == 0 || slices.Contains(f.Kinds, "string")
	if only := texts && len(f.Kinds) == 1; !only && json.Valid([]byte(text)) {
		return json.RawMessage(strings.TrimSpace(text)), nil
	}
	if !texts {
		return nil, fmt.Errorf("expected %s as JSON%s; got %s", f.Type, f.example(), f.got(text))
	}
	var value bytes.Buffer
	encoder := json.NewEncoder(&value)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return nil, fmt.Errorf("write it as JSON: %w", err)
	}
	return bytes.TrimSpace(value.Bytes()), nil
}

// example returns an example of a value, for a message.
func (f Field) example() string {
	if len(f.Examples) == 0 {
		return ""
	}
	return ", such as " + Readable(f.Examples[0])
}

// got returns the text, shortened, for a message. It hides the text of a secret field.
func (f Field) got(text string) string {
	const most = 48
	switch runes := []rune(text); {
	case text == "":
		return "an empty value"
	case f.Secret:
		return "a value that is hidden, because the field is secret"
	case len(runes) > most:
		return strconv.QuoteToASCII(string(runes[:most])) + "..."
	}
	return strconv.QuoteToASCII(text)
}

// Write returns the text that Read turns into the value.
func (f Field) Write(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil || string(value) == "null" {
		return Readable(value)
	}
	if back, err := f.Read(text); err == nil && len(back) > 0 && back[0] == '"' {
		return text
	}
	return Readable(value)
}

// Readable returns JSON on one line, without the escapes of <, > and & that encoders add for
// HTML.
func Readable(value json.RawMessage) string {
	var line bytes.Buffer
	if err := json.Compact(&line, value); err != nil {
		return string(value)
	}
	return unescapeHTML(line.String())
}

// Indented returns indented JSON, without these escapes.
func Indented(value json.RawMessage) string {
	var lines bytes.Buffer
	if err := json.Indent(&lines, value, "", "  "); err != nil {
		return string(value)
	}
	return unescapeHTML(lines.String())
}

var escape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

func unescapeHTML(text string) string {
	return escape.ReplaceAllStringFunc(text, func(one string) string {
		switch strings.ToLower(one) {
		case `\u003c`:
			return "<"
		case `\u003e`:
			return ">"
		case `\u0026`:
			return "&"
		}
		return one
	})
}

// Sample returns the input and config of a sample call, from the component's examples.
func Sample(c api.Component) (input, config json.RawMessage) {
	return sample(c.Input), sample(c.Config)
}

func sample(schema json.RawMessage) json.RawMessage {
	var head struct{ Examples []json.RawMessage }
	if json.Unmarshal(schema, &head) == nil && len(head.Examples) > 0 {
		return json.RawMessage(Readable(head.Examples[0]))
	}
	object, err := ReadObject(schema)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	members := map[string]json.RawMessage{}
	for _, f := range object.Fields {
		if f.Required && len(f.Examples) > 0 {
			members[f.Name] = f.Examples[0]
		}
	}
	out, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return out
}

// ConfigPrefix marks an argument of weft call as a field of the config. The prefix is needed if the
// input has a field of the same name.
const ConfigPrefix = "config."

// CallLine returns the weft command of the sample call, or "" if the component is executed only
// inside a workflow.
func CallLine(c api.Component) string {
	if !slices.Contains(c.ExecutionModes, api.ExecutionModeCOMPONENT) {
		return ""
	}
	words := []string{"weft call", c.Module}
	input, config := Sample(c)
	var inputFields []Field
	for i, part := range []struct{ schema, value json.RawMessage }{{c.Input, input}, {c.Config, config}} {
		object, err := ReadObject(part.schema)
		if err != nil {
			return ""
		}
		if i == 0 {
			inputFields = object.Fields
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(part.value, &members) != nil {
			return ""
		}
		for _, f := range ordered(object.Fields, members) {
			name, text := f.Name, f.Write(members[f.Name])
			if strings.HasPrefix(text, "@") {
				text = "@" + text
			}
			if i > 0 && slices.ContainsFunc(inputFields, func(other Field) bool { return other.Name == name }) {
				name = ConfigPrefix + name
			}
			words = append(words, name+"="+shell(text))
		}
	}
	return strings.Join(words, " ")
}

// ordered returns the fields that have a value: known fields in their order, then the other fields
// by name.
func ordered(fields []Field, members map[string]json.RawMessage) []Field {
	var all []Field
	for _, f := range fields {
		if members[f.Name] != nil {
			all = append(all, f)
		}
	}
	var others []string
	for name := range members {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for _, name := range others {
		all = append(all, Field{Name: name})
	}
	return all
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// shell quotes a word for a POSIX shell.
func shell(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
