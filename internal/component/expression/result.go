package expression

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Approximate sizes of values, in bytes.
const (
	sizeOfItem   = 24
	sizeOfMember = 64
)

// measure returns the size of a value as JSON. It fails if the value can't be encoded or is too
// large. A value that is referenced several times is counted for each reference.
func (r *run) measure(node ast.Node, value any) (size int) {
	r.counted = 0
	size = r.sizeOf(node, value, 0, 0)
	if size > MaxResult {
		r.fail(node, TooExpensive, "the result has more than %d bytes", MaxResult)
	}
	return size
}

// count adds to the number of items and fields of a result.
func (r *run) count(node ast.Node, values int) {
	if r.counted += values; r.counted > MaxValues {
		r.fail(node, TooExpensive, "the result has more than %d items and fields", MaxValues)
	}
}

func (r *run) sizeOf(node ast.Node, value any, size, depth int) int {
	r.spend(node, 1)
	if depth > MaxDepth {
		r.fail(node, NotJSON, "the result is nested deeper than %d", MaxDepth)
	}
	if size > MaxResult {
		return size
	}
	switch value := value.(type) {
	case nil, bool:
		return size + 5
	case int, int64:
		return size + 20
	case float64:
		if math.IsInf(value, 0) || math.IsNaN(value) {
			r.fail(node, NotJSON, "the result is not a number")
		}
		return size + 24
	case json.Number:
		return size + len(value)
	case string:
		return size + r.sizeOfText(node, value)
	case []any:
		r.count(node, len(value))
		size += 2
		for _, item := range value {
			size = r.sizeOf(node, item, size+1, depth+1)
		}
		return size
	case map[string]any:
		r.count(node, len(value))
		size += 2
		for _, name := range r.names(node, value) {
			if len(name) > MaxName {
				r.fail(node, NotJSON, "a field name has more than %d bytes", MaxName)
			}
			size = r.sizeOf(node, value[name], size+2+r.sizeOfText(node, name), depth+1)
		}
		return size
	}
	if _, isDuration := value.(duration); isDuration {
		r.fail(node, NotJSON, "the result has a duration, which has no form outside of an expression: divide it by one to get a number, as in ... / duration(\"1s\")")
	}
	r.fail(node, NotJSON, "the result cannot be encoded as JSON")
	return 0
}

func (r *run) sizeOfText(node ast.Node, text string) int {
	r.read(node, len(text))
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		r.fail(node, NotJSON, "a string in the result is not valid UTF-8 or contains U+0000")
	}
	size := 2 + len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			size++
		case c < ' ':
			size += 5
		}
	}
	return size
}

// encode returns a value as compact JSON with sorted keys.
func (r *run) encode(node ast.Node, value any) string {
	if n, ok := value.(int64); ok {
		return strconv.FormatInt(n, 10)
	}
	r.spend(node, 20)
	r.hold(node, r.measure(node, value), 1)
	out, err := strictjson.Encode(value)
	if err != nil {
		r.fail(node, NotJSON, "the value cannot be encoded as JSON")
	}
	return string(out)
}

// names returns the sorted names of an object's fields.
func (r *run) names(node ast.Node, object map[string]any) []string {
	r.spend(node, 4*len(object))
	for name := range object {
		r.spend(node, len(name)/64)
	}
	return slices.Sorted(maps.Keys(object))
}

// fail aborts the run with an error at a node.
func (r *run) fail(node ast.Node, code Code, format string, args ...any) {
	panic(at(r.program.text, node.Location().From, code, format, args...))
}

// absent aborts an evaluation because a value is missing. Only tolerate recovers from it.
type absent struct{ *Error }

// miss is fail for a missing value, which some operators tolerate.
func (r *run) miss(node ast.Node, code Code, format string, args ...any) {
	panic(absent{at(r.program.text, node.Location().From, code, format, args...)})
}

// spend uses steps of the budget. It fails if the budget is exhausted.
func (r *run) spend(node ast.Node, steps int) {
	if r.steps += steps; r.steps > maxSteps || steps < 0 {
		r.fail(node, TooExpensive, "the expression needs more than %d steps", maxSteps)
	}
}

// read uses the steps for reading size bytes of text.
func (r *run) read(node ast.Node, size int) { r.spend(node, 1+size/64) }

// hold uses memory of the budget, before the memory is allocated.
func (r *run) hold(node ast.Node, count, size int) {
	if count < 0 || count > maxMemory/size || r.memory+count*size > maxMemory {
		r.fail(node, TooExpensive, "the expression allocates more than %d MiB", maxMemory>>20)
	}
	r.memory += count * size
}

// kind returns the type of a value for error messages.
func kind(value any) string {
	switch value.(type) {
	case nil:
		return "nil"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case duration:
		return "a duration"
	case map[string]any:
		return "an object"
	}
	if isNumber(value) {
		return "a number"
	}
	return "a value of an unknown type"
}
