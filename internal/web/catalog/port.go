package catalog

import (
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
)

// fires maps each port to when it fires (decisions 8.2).
var fires = map[string]string{
	graph.PortNext:      "The component completed.",
	graph.PortThen:      "The condition holds.",
	graph.PortElse:      "The condition does not hold.",
	graph.PortDefault:   "No case holds.",
	graph.PortEach:      "Once per item or iteration. The components reachable from here are the body of the loop.",
	graph.PortDone:      "The loop is finished.",
	graph.PortTimeout:   "The wait timed out.",
	graph.PortExhausted: "The limits of the loop leave no further iteration. Without an edge here, the loop fails instead.",
	graph.PortError:     "The component failed. Without an edge here, and without onFailure: continue, the run fails.",
}

const (
	afterLoop    = "The same as done. An edge without a port means this one."
	afterFailure = "Only with onFailure: continue, because the component never completes."
)

// ports returns the ports of a component in their documented order, or an empty list if it
// can't be executed inside a workflow, or if nothing follows it.
func ports(entry *component.Entry) []api.ComponentPort {
	all := []api.ComponentPort{}
	flow := entry.Flow()
	if !slices.Contains(entry.Modes, component.ModeWorkflow) || flow.Continues {
		return all
	}
	names := flow.Ports
	switch {
	case flow.Loop:
		names = append([]string{graph.PortEach, graph.PortDone, graph.PortNext}, flow.Ports...)
	case flow.CasePorts != nil:
		all = append(all, api.ComponentPort{NamedBy: &flow.CasesAt, Description: "The case with this name is the first case that holds."})
		names = append(slices.Clone(names), graph.PortDefault)
	case names == nil:
		names = []string{graph.PortNext}
	}
	for _, name := range append(slices.Clone(names), graph.PortError) {
		when := fires[name]
		switch {
		case name == graph.PortNext && flow.Loop:
			when = afterLoop
		case name == graph.PortNext && flow.Fails:
			when = afterFailure
		}
		all = append(all, api.ComponentPort{Name: &name, Description: when})
	}
	return all
}

// PortInWords returns the name of a port, or the path of the field that names it.
func PortInWords(p api.ComponentPort) string {
	switch {
	case p.Name != nil:
		return *p.Name
	case p.NamedBy != nil:
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(*p.NamedBy, "/"), "/*", "[]"), "/", ".")
	}
	return ""
}
