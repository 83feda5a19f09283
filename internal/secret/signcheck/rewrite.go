package signcheck

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Rewriting a body takes far longer than any other attempt. So bodies of more than maxRead are not
// rewritten, and indented forms of more than maxRewritten are omitted.
const (
	maxRead      = 16 << 10
	maxRewritten = 64 << 10
)

// style is how a serializer writes JSON.
type style struct {
	said                 string // description in the finding; "" if only escapes differ
	comma, colon, indent string
	sorted               bool
	number               func(json.Number) string // nil: unchanged
	ascii, html, slash   bool                     // characters that are escaped although JSON doesn't require it
}

// styles are the most common serializers, in the order of the number of their changes.
var styles = []style{
	{comma: ",", colon: ":"},
	{comma: ",", colon: ":", ascii: true},
	{comma: ",", colon: ":", html: true},
	{comma: ",", colon: ":", slash: true},
	{comma: ",", colon: ":", slash: true, ascii: true},
	{said: "with blanks after commas and colons, as json.dumps of Python does unless separators say otherwise", comma: ", ", colon: ": ", ascii: true, number: inPython},
	{said: "with blanks after commas and colons", comma: ", ", colon: ": ", number: inPython},
	{said: "with other numbers", comma: ",", colon: ":", ascii: true, number: inPython},
	{said: "with other numbers, as JSON.stringify of JavaScript writes them after JSON.parse", comma: ",", colon: ":", number: inJavaScript},
	{said: "with line ends and an indentation", comma: ",", colon: ": ", indent: "  "},
	{said: "with line ends and an indentation", comma: ",", colon: ": ", indent: "    "},
	{said: "with line ends and an indentation", comma: ",", colon: ": ", indent: "    ", ascii: true},
	{said: "with line ends and an indentation", comma: ",", colon: ": ", indent: "\t"},
	{said: "with its keys in another order", comma: ",", colon: ":", sorted: true},
	{said: "with its keys in another order", comma: ",", colon: ":", sorted: true, ascii: true, number: inPython},
	{said: "with its keys in another order, and blanks", comma: ", ", colon: ": ", sorted: true, ascii: true, number: inPython},
	{said: "with its keys in another order, as a map of Go is written", comma: ",", colon: ":", sorted: true, html: true, number: inJavaScript},
}

const escapesText = "The body was signed with other escapes than it was sent with: \\u escapes for letters beyond ASCII or for <, > and &, or \\/. " +
	"Serialize the body once, sign that text and send that very text."

type rewriting struct {
	Finding

	text string
}

// rewritten returns the body as other serializers write it. It returns nil for a body that is too large
// or that Weft doesn't accept.
func rewritten(body []byte) []rewriting {
	if len(body) > maxRead || strictjson.Check(body) != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	value, err := parse(decoder)
	if err != nil {
		return nil
	}
	var all []rewriting
	for _, s := range styles {
		finding := Finding{Code: BodyEscapes, Certain: true, Text: escapesText}
		if s.said != "" {
			finding.Code = BodySerialized
			finding.Text = fmt.Sprintf("The body was serialized once more for the signature, %s. Serialize it once, sign that text and send that very text.", s.said)
		}
		w := writer{style: s}
		if w.value(value, 0); w.out.Len() < maxRewritten {
			all = append(all, rewriting{finding, w.out.String()})
		}
	}
	return all
}

type (
	object []member
	member struct {
		name  string
		value any
	}
)

// parse decodes a value and keeps the order of its keys and the form of its numbers.
func parse(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	delimiter, opens := token.(json.Delim)
	if err != nil || !opens {
		return token, err
	}
	members, items := object{}, []any{}
	for decoder.More() {
		var m member
		if delimiter == '{' {
			name, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			m.name, _ = name.(string)
		}
		if m.value, err = parse(decoder); err != nil {
			return nil, err
		}
		members, items = append(members, m), append(items, m.value)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if delimiter == '{' {
		return members, nil
	}
	return items, nil
}

type writer struct {
	style

	out strings.Builder
}

func (w *writer) value(value any, depth int) {
	if w.out.Len() >= maxRewritten {
		return
	}
	switch value := value.(type) {
	case object:
		if w.sorted {
			value = slices.SortedFunc(slices.Values(value), func(a, b member) int { return cmp.Compare(a.name, b.name) })
		}
		w.list('{', '}', len(value), depth, func(i int) {
			w.text(value[i].name)
			w.out.WriteString(w.colon)
			w.value(value[i].value, depth+1)
		})
	case []any:
		w.list('[', ']', len(value), depth, func(i int) { w.value(value[i], depth+1) })
	case string:
		w.text(value)
	case json.Number:
		if w.number != nil {
			w.out.WriteString(w.number(value))
		} else {
			w.out.WriteString(value.String())
		}
	case bool:
		w.out.WriteString(strconv.FormatBool(value))
	default:
		w.out.WriteString("null")
	}
}

func (w *writer) list(begin, end byte, length, depth int, element func(int)) {
	w.out.WriteByte(begin)
	for i := range length {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		w.line(depth + 1)
		element(i)
	}
	if length > 0 {
		w.line(depth)
	}
	w.out.WriteByte(end)
}

func (w *writer) line(depth int) {
	if w.indent != "" {
		w.out.WriteString("\n" + strings.Repeat(w.indent, depth))
	}
}

var short = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func (w *writer) text(text string) {
	w.out.WriteByte('"')
	for _, r := range text {
		switch escape, ok := short[r]; {
		case ok:
			w.out.WriteString(escape)
		case r < ' ', w.ascii && r > '~' && r <= 0xffff, w.html && strings.ContainsRune("<>&\u2028\u2029", r):
			fmt.Fprintf(&w.out, `\u%04x`, r)
		case w.ascii && r > 0xffff:
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case w.slash && r == '/':
			w.out.WriteString(`\/`)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
}

// inJavaScript formats a number like JSON.stringify after JSON.parse.
func inJavaScript(n json.Number) string {
	f, err := n.Float64()
	if err != nil {
		return "null" // like infinity
	}
	if f == 0 {
		return "0"
	}
	text, err := json.Marshal(f)
	if err != nil {
		return n.String()
	}
	return string(text)
}

// inPython formats a number like json.dumps after json.loads: integers unchanged, others like repr.
func inPython(n json.Number) string {
	f, err := n.Float64()
	switch {
	case n.String() == "-0":
		return "0"
	case err != nil, !strings.ContainsAny(n.String(), ".eE"):
		return n.String()
	}
	exponent := strconv.FormatFloat(f, 'e', -1, 64)
	_, digits, _ := strings.Cut(exponent, "e")
	if power, err := strconv.Atoi(digits); err != nil || power < -4 || power >= 16 {
		return exponent
	}
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	return plain
}
