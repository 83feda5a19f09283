package expression

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"html"
	"maps"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// string converts a value to a string. Values other than strings are encoded as JSON.
func (c call) string() any {
	switch value := c.arguments[0].(type) {
	case string:
		return value
	case nil:
		return "nil"
	default:
		return c.encode(c.node, value)
	}
}

// made uses the budget for a string that a function is about to create.
func (c call) made(size int) {
	c.hold(c.node, size, 1)
	c.read(c.node, size)
}

func (c call) trim() any {
	text := c.textAt(0)
	c.read(c.node, len(text))
	chars := " "
	switch {
	case len(c.arguments) == 2:
		chars = c.textAt(1)
		c.spend(c.node, 1+len(text)*len(chars)/64)
	case c.name == "trim":
		return strings.TrimSpace(text)
	}
	switch c.name {
	case "trimPrefix":
		return strings.TrimPrefix(text, chars)
	case "trimSuffix":
		return strings.TrimSuffix(text, chars)
	}
	return strings.Trim(text, chars)
}

func (c call) letters() any {
	text := c.textAt(0)
	c.made(2 * len(text))
	if c.name == "upper" {
		return strings.ToUpper(text)
	}
	return strings.ToLower(text)
}

// limit returns argument i, or -1 for no limit if it is missing.
func (c call) limit(i int) int {
	if len(c.arguments) <= i {
		return -1
	}
	return int(max(-1, min(c.integerAt(i), math.MaxInt32)))
}

func (c call) split() any {
	text, separator, limit := c.textAt(0), c.textAt(1), c.limit(2)
	c.read(c.node, len(text))
	count := strings.Count(text, separator) + 1
	if limit >= 0 {
		count = min(count, limit)
	}
	c.hold(c.node, count, 2*sizeOfItem)
	c.spend(c.node, count)
	parts := strings.SplitN(text, separator, limit)
	if c.name == "splitAfter" {
		parts = strings.SplitAfterN(text, separator, limit)
	}
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return items
}

func (c call) join() any {
	items, glue := c.listAt(0), ""
	if len(c.arguments) == 2 {
		glue = c.textAt(1)
	}
	c.hold(c.node, len(items), sizeOfItem)
	c.spend(c.node, len(items))
	size, parts := 0, make([]string, len(items))
	for i, item := range items {
		parts[i] = c.text(c.node, item, "each item of join()")
		size = min(size+len(parts[i])+len(glue), math.MaxInt32)
	}
	c.made(size)
	return strings.Join(parts, glue)
}

func (c call) replace() any {
	text, old, new, limit := c.textAt(0), c.textAt(1), c.textAt(2), c.limit(3)
	c.read(c.node, len(text))
	count := strings.Count(text, old)
	if limit >= 0 {
		count = min(count, limit)
	}
	c.hold(c.node, count, max(1, len(new)))
	c.made(len(text))
	c.spend(c.node, count)
	return strings.Replace(text, old, new, limit)
}

func (c call) repeat() any {
	text, count := c.textAt(0), c.integerAt(1)
	if count < 0 {
		c.fail(c.node, OutOfRange, "repeat() doesn't accept a negative count")
	}
	count = min(count, math.MaxInt32)
	if text == "" {
		return ""
	}
	c.hold(c.node, int(count), len(text))
	c.read(c.node, int(count)*len(text))
	return strings.Repeat(text, int(count))
}

// indexOf counts in characters, as len and an index do.
func (c call) indexOf() any {
	text, part := c.textAt(0), c.textAt(1)
	c.read(c.node, 2*len(text))
	found := strings.Index(text, part)
	if c.name == "lastIndexOf" {
		found = strings.LastIndex(text, part)
	}
	if found < 0 {
		return int64(-1)
	}
	return int64(utf8.RuneCountInString(text[:found]))
}

func (c call) has() any {
	text, part := c.textAt(0), c.textAt(1)
	c.read(c.node, min(len(text), len(part)))
	if c.name == "hasPrefix" {
		return strings.HasPrefix(text, part)
	}
	return strings.HasSuffix(text, part)
}

func (c call) toJSON() any { return c.encode(c.node, c.arguments[0]) }

// fromJSON decodes JSON. Numbers keep their notation.
func (c call) fromJSON() any {
	text := c.textAt(0)
	c.made(len(text))
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	// Decoded values need much more memory than their JSON.
	c.hold(c.node, strings.Count(text, ",")+strings.Count(text, "[")+strings.Count(text, ":"), sizeOfMember)
	c.spend(c.node, 100+len(text)/4)
	var value any
	if err := decoder.Decode(&value); err != nil || strings.TrimLeft(text[decoder.InputOffset():], " \t\r\n") != "" {
		c.fail(c.node, WrongType, "fromJSON() accepts a string with a single JSON value")
	}
	return value
}

func (c call) toBase64() any {
	text := c.textAt(0)
	c.made(2 * len(text))
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func (c call) fromBase64() any {
	text := c.textAt(0)
	c.made(len(text))
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !utf8.Valid(data) {
		c.fail(c.node, WrongType, "fromBase64() accepts standard base64 with padding of a UTF-8 string")
	}
	return string(data)
}

// match returns the first match of a regular expression and its groups, or nil without a match.
func (c call) match() any {
	text, p := c.textAt(0), c.compiled(c.node, c.textAt(1))
	groups := p.regexp.NumSubexp()
	c.spend(c.node, 1+len(text)*p.size*(1+groups/4)/16)
	found := p.regexp.FindStringSubmatchIndex(text)
	if found == nil {
		return nil
	}
	c.hold(c.node, groups+1, 2*sizeOfItem)
	parts := make([]any, groups+1)
	for i := range parts {
		if from := found[2*i]; from >= 0 {
			parts[i] = text[from:found[2*i+1]]
		}
	}
	return parts
}

// maxDigits limits the digits and the exponent of a number for fixed.
const maxDigits = 1_000

// fixed writes a number with a number of decimals. It rounds half away from zero, and is exact.
func (c call) fixed() any {
	text, isText := c.arguments[0].(string)
	digits := c.integerAt(1)
	if digits < 0 || digits > 100 {
		c.fail(c.node, OutOfRange, "%s must be between 0 and 100", c.what(1))
	}
	switch number := c.arguments[0].(type) {
	case json.Number:
		text = number.String()
	case string:
	default:
		text = c.encode(c.node, c.numberAt(0))
	}
	c.spend(c.node, 10+len(text))
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > maxDigits || len(strings.TrimLeft(exponent, "+-0")) > 3 {
		c.fail(c.node, OutOfRange, "%s can have at most %d digits", c.what(0), maxDigits)
	}
	number, ok := new(big.Rat).SetString(text)
	if isText && (!isDecimal(text) || mantissa != text || strings.TrimSpace(text) != text) || !ok {
		c.fail(c.node, WrongType, "%s must be a number or a decimal text such as 12.50", c.what(0))
	}
	c.spend(c.node, 10*maxDigits/perDigits)
	c.made(2*maxDigits + int(digits))
	written := number.FloatString(int(digits))
	if strings.Trim(written, "-0.") == "" {
		written = strings.TrimPrefix(written, "-")
	}
	return written
}

// escape makes a string safe in HTML, or in a part of an address.
func (c call) escape() any {
	text := c.textAt(0)
	c.made(5 * len(text))
	if c.name == "escapeHTML" {
		return html.EscapeString(text)
	}
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// parseCSV returns the records of CSV (RFC 4180) as objects, whose names are in the first record.
func (c call) parseCSV() any {
	text := strings.TrimPrefix(c.textAt(0), "\ufeff")
	c.made(4 * len(text))
	c.hold(c.node, 1+strings.Count(text, ",")+2*strings.Count(text, "\n"), 2*sizeOfMember)
	c.spend(c.node, len(text)/4)
	kept, mark := keepReturns(text)
	records, err := csv.NewReader(strings.NewReader(kept)).ReadAll()
	if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
		c.fail(c.node, WrongType, "parseCSV(): line %d of the text: %v", wrong.Line, wrong.Err)
	}
	rows := []any{}
	for i, record := range records {
		if i == 0 {
			if sorted := slices.Sorted(slices.Values(record)); len(slices.Compact(sorted)) < len(record) {
				c.fail(c.node, WrongType, "parseCSV(): two columns have the same name")
			}
			continue
		}
		row := make(map[string]any, len(record))
		for column, value := range record {
			row[strings.ReplaceAll(records[0][column], mark, "\r")] = strings.ReplaceAll(value, mark, "\r")
		}
		rows = append(rows, row)
	}
	return rows
}

// keepReturns replaces the carriage returns between quotation marks, which package csv drops before a
// line feed, by a mark that is not in the text.
func keepReturns(text string) (kept, mark string) {
	mark = "\r"
	if !strings.Contains(text, mark) {
		return text, mark
	}
	for letter := '\ue000'; strings.Contains(text, mark); letter++ {
		mark = string(letter)
	}
	parts := strings.Split(text, `"`)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "\r", mark)
	}
	return strings.Join(parts, `"`), mark
}

// formatCSV returns CSV (RFC 4180). Rows are arrays, or objects, whose names become the first record.
func (c call) formatCSV() any {
	rows := c.listAt(0)
	names := map[string]bool{}
	for _, row := range rows {
		object, _ := row.(map[string]any)
		for _, name := range c.run.names(c.node, object) {
			names[name] = true
		}
	}
	header := slices.Sorted(maps.Keys(names))
	var out strings.Builder
	if len(header) > 0 {
		c.record(&out, header)
	}
	for _, row := range rows {
		var record []string
		switch row := row.(type) {
		case []any:
			if len(header) > 0 {
				c.fail(c.node, WrongType, "the rows of formatCSV() must all be arrays, or all be objects")
			}
			for _, value := range row {
				record = append(record, c.cell(value))
			}
		case map[string]any:
			for _, name := range header {
				record = append(record, c.cell(row[name]))
			}
		default:
			c.fail(c.node, WrongType, "each row of formatCSV() must be an array or an object, got %s", kind(row))
		}
		c.record(&out, record)
	}
	return out.String()
}

// cell returns a value as text: nothing for nil, a string as it is, everything else as JSON.
func (c call) cell(value any) string {
	c.hold(c.node, 1, sizeOfItem)
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	return c.encode(c.node, value)
}

// record writes a record of CSV, which ends with CRLF.
func (c call) record(out *strings.Builder, fields []string) {
	if len(fields) == 1 && fields[0] == "" {
		out.WriteString("\"\"\r\n") // a reader skips an empty line
		return
	}
	size := 2
	for _, field := range fields {
		size += 2*len(field) + 3
	}
	c.made(2 * size)
	var line strings.Builder
	writer := csv.NewWriter(&line)
	_ = writer.Write(fields) // a strings.Builder accepts everything
	writer.Flush()
	out.WriteString(strings.TrimSuffix(line.String(), "\n") + "\r\n")
}

// decodeForm returns the fields of a form (application/x-www-form-urlencoded). The values of a repeated
// name are an array.
func (c call) decodeForm() any {
	text := c.textAt(0)
	c.made(2 * len(text))
	c.hold(c.node, 1+strings.Count(text, "&"), 2*sizeOfMember)
	c.spend(c.node, len(text)/8)
	form, err := url.ParseQuery(text)
	if err != nil {
		c.fail(c.node, WrongType, "decodeForm() accepts fields such as a=1&b=two%%20words")
	}
	fields := make(map[string]any, len(form))
	for name, values := range form {
		if fields[name] = any(values[0]); len(values) > 1 {
			list := make([]any, len(values))
			for i, value := range values {
				list[i] = value
			}
			fields[name] = list
		}
	}
	return fields
}
