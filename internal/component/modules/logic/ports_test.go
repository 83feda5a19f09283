package logic

import (
	"encoding/json"
	"slices"

	"github.com/weft-automation/weft/internal/component/graph"
)

// portsOf returns the ports of a component with the given config, except `error`. For modules of
// other families, which only have the port `next`, it returns false.
func portsOf(name string, config json.RawMessage) (ports []string, ok bool) {
	m := lookup(name)
	switch {
	case m == nil:
		return []string{graph.PortNext}, false
	case m.flow.Loop:
		return []string{graph.PortEach, graph.PortDone, graph.PortNext}, true
	case m.flow.CasePorts != nil:
		return append(m.flow.CasePorts(config), graph.PortDefault), true
	case m.flow.Ports != nil:
		return slices.Clone(m.flow.Ports), true
	}
	return []string{graph.PortNext}, true
}
