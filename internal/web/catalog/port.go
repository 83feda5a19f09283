package catalog

import (
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
)

// fires says when a port fires (decisions 8.2).
var fires = map[string]string{
	graph.PortNext:    "It completed.",
	graph.PortThen:    "The condition holds.",
	graph.PortElse:    "The condition does not hold.",
	graph.PortDefault: "No case holds.",
	graph.PortEach:    "Once for every item: what is reached over it is the body of the loop.",
	graph.PortDone:    "All items are over.",
	graph.PortTimeout: "Nothing came in time.",
	graph.PortError:   "It failed. Without an edge here, and without onFailure: continue, the run fails.",
}

const (
	afterLoop    = "The same as done: what an edge means that names no port."
	afterFailure = "Only with onFailure: continue, because it never completes."
)

// ports are those of a component, in the order in which they are told of; none where it is
// not executed inside a workflow.
func ports(entry *component.Entry) []api.ComponentPort {
	all := []api.ComponentPort{}
	if !slices.Contains(entry.Modes, component.ModeWorkflow) {
		return all
	}
	flow := entry.Flow()
	names := flow.Ports
	switch {
	case flow.Loop:
		names = []string{graph.PortEach, graph.PortDone, graph.PortNext}
	case flow.CasePorts != nil:
		all = append(all, api.ComponentPort{NamedBy: &flow.CasesAt, Description: "The case of this name is the first that holds."})
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

// PortInWords is the name of a port, or which names it may have.
func PortInWords(p api.ComponentPort) string {
	switch {
	case p.Name != nil:
		return *p.Name
	case p.NamedBy != nil:
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(*p.NamedBy, "/"), "/*", "[]"), "/", ".")
	}
	return ""
}
