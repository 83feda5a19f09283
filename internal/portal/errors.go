package portal

import (
	"fmt"
	"strings"

	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/gate"
)

// coded is a code of error answers, as the service answers with it.
type coded struct {
	Code      fault.Code
	Statuses  string
	Title     string
	Retryable bool
}

// codes are all of them, in the order of decisions 3.
func codes() []coded {
	var all []coded
	for _, code := range fault.Codes() {
		title, retryable := gate.Words(code)
		statuses := []string{fmt.Sprint(gate.Status(&fault.Error{Code: code}))}
		for _, variant := range []*fault.Error{{Code: code, Unprocessable: code == fault.InvalidInput}, {Code: code, Reason: reasonOf(code)}} {
			if status := fmt.Sprint(gate.Status(variant)); status != statuses[0] {
				statuses = append(statuses, status)
			}
		}
		all = append(all, coded{code, strings.Join(statuses, ", "), title, retryable})
	}
	return all
}

// reasonOf is the reason by which a code has another status.
func reasonOf(code fault.Code) string {
	if code == fault.PayloadTooLarge {
		return gate.ReasonHeaders
	}
	return ""
}
