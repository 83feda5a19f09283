package portal

import (
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/plan"
)

// terms are what a plan gives, in words.
type terms struct{ Name, RPS, RPH, Waits, Streams, Monthly, UsageLimit string }

// plans are all of them. Where a plan has no terms of its own they are agreed.
func plans() []terms {
	const agreed = "as agreed"
	var all []terms
	for _, name := range plan.Names() {
		given := name.Terms()
		one := terms{Name: strings.ToUpper(string(name[:1])) + string(name[1:])}
		if given.RPS == plan.None {
			one.RPS, one.RPH, one.Waits, one.Streams, one.Monthly, one.UsageLimit = agreed, agreed, agreed, agreed, agreed, agreed
		} else {
			one.RPS, one.RPH, one.Waits, one.Streams = grouped(given.RPS), grouped(given.RPH), grouped(given.Waits), grouped(given.Streams)
			one.Monthly, one.UsageLimit = given.Monthly.String(), given.UsageLimit.String()
		}
		all = append(all, one)
	}
	return all
}

// grouped is a number below a million with its thousands apart.
func grouped(n int) string {
	text := strconv.Itoa(n)
	if len(text) > 3 {
		return text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
