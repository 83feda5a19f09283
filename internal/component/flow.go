package component

import "encoding/json"

// Flow is the place of a module in a graph: by which ports it goes on. The zero Flow
// is that of a module that goes on by `next`.
type Flow struct {
	Ports     []string                              // beside `error`, which every module has; nil: `next`
	CasePorts func(config json.RawMessage) []string // further ports that a config names; nil: none
	CasesAt   string                                // where it names them: a JSON pointer from the call, with * for every item
	Loop      bool                                  // what follows by `each` runs once for every item
	Trigger   bool                                  // begins a run
	Fails     bool                                  // never completes: it goes on only where its failure is passed over
	Inline    bool                                  // a run does it itself: it has one attempt
	Lasts     bool                                  // of one that is Inline: it may take time, which timeoutMs limits

	// RunInput is the schema that a config holds of what a run begins with; nil: of anything.
	RunInput func(config json.RawMessage) json.RawMessage
}

// director is a module of control flow.
type director interface{ Flow() Flow }

// Flow is the place of the module in a graph.
func (e *Entry) Flow() Flow {
	if module, ok := e.module.(director); ok {
		return module.Flow()
	}
	return Flow{}
}
