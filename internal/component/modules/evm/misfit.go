package evm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/weft-automation/weft/internal/component"
)

// misfit is a value that is not what its type asks for, and where it stands.
// The path grows from its end while the error goes up, so that what fits costs
// nothing.
type misfit struct{ path, text string }

func (m *misfit) Error() string { return m.path + ": " + m.text }

func misfitf(format string, args ...any) error { return &misfit{text: fmt.Sprintf(format, args...)} }

// under puts a step before the path of an error.
func under(err error, step string) error {
	if m, ok := errors.AsType[*misfit](err); ok {
		return &misfit{path: step + m.path, text: m.text}
	}
	return &misfit{path: step, text: err.Error()}
}

// refused is INVALID_INPUT at a path below a field.
func refused(field string, err error) error {
	return component.Permanent(component.CodeInvalidInput, "%s", under(err, field))
}

const maxShown = 48 // characters of a caller's value in a message

// came tells a caller's value in a message, in ASCII and cut.
func came(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return cut(value.String())
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

func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "..."
}
