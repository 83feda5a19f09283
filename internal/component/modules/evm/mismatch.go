package evm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/weft-automation/weft/internal/component"
)

// mismatch reports a value that doesn't fit its type, and the path to the value. The path is
// built only for errors, when each level prepends its step, so valid values cost nothing.
type mismatch struct{ path, text string }

func (m *mismatch) Error() string { return m.path + ": " + m.text }

func mismatchf(format string, args ...any) error {
	return &mismatch{text: fmt.Sprintf(format, args...)}
}

// atPath prepends a step to the path of an error.
func atPath(err error, step string) error {
	if m, ok := errors.AsType[*mismatch](err); ok {
		return &mismatch{path: step + m.path, text: m.text}
	}
	return &mismatch{path: step, text: err.Error()}
}

// invalidAt returns INVALID_INPUT for a path below a field.
func invalidAt(field string, err error) error {
	return component.Permanent(component.CodeInvalidInput, "%s", atPath(err, field))
}

const maxShown = 48 // characters of a caller's value that an error message quotes

// describe returns a caller's value for an error message, in ASCII and truncated.
func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return truncate(value.String())
	case string:
		runes := []rune(value[:min(len(value), 4*maxShown)])
		if len(runes) <= maxShown && len(value) <= 4*maxShown {
			return strconv.QuoteToASCII(value)
		}
		return strconv.QuoteToASCII(string(runes[:min(len(runes), maxShown)])) + "..."
	case []any:
		if len(value) == 1 {
			return "an array of 1 item"
		}
		return fmt.Sprintf("an array of %d items", len(value))
	}
	return "an object"
}

func truncate(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "..."
}
