package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/weft-automation/weft/gen/api"
)

// picture returns the state of a run as lines of progress.
func picture(event api.RunEvent) []string {
	var state api.RunEventOutput
	_ = json.Unmarshal(event.Output, &state) // each field may be missing
	head := fmt.Sprintf("%-9s  usage %v  pending %d", event.Status, state.TotalUsage, state.PendingStageCount)
	if state.FailedStageCount > 0 {
		head += fmt.Sprintf("  failed %d", state.FailedStageCount)
	}
	if state.CancelRequestedAt != nil {
		head += "  cancel requested"
	}
	return append([]string{head}, groups(state)...)
}

// groups counts the unfinished stages by module and status.
func groups(state api.RunEventOutput) []string {
	var order []string
	counts := map[string]int{}
	for _, stage := range state.NonTerminalStages {
		group := printable(stage.Module) + " " + string(stage.Status)
		if counts[group]++; counts[group] == 1 {
			order = append(order, group)
		}
	}
	for i, group := range order {
		if n := counts[group]; n > 1 {
			order[i] = fmt.Sprintf("%s x%d", group, n)
		}
	}
	if rest := int(state.PendingStageCount) - len(state.NonTerminalStages); rest > 0 {
		order = append(order, fmt.Sprintf("%d more", rest))
	}
	return order
}

// printable returns text from the service without control characters, which a terminal would
// interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}
