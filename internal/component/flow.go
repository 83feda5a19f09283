package component

import (
	"encoding/json"

	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Flow describes how a module behaves in a graph: at which ports a run continues after it. The zero
// Flow continues at `next`.
type Flow struct {
	Ports     []string                              // in addition to `error`, which every module has; nil: `next`
	CasePorts func(config json.RawMessage) []string // additional ports defined by the config; nil: none
	CasesAt   string                                // the config's cases: a JSON pointer into the call, with * for every item
	Loop      bool                                  // the `each` branch runs once for every item or iteration
	Repeats   bool                                  // a loop whose iterations run one after the other, until a component that Continues ends it
	Continues bool                                  // ends an iteration of a loop that Repeats
	Trigger   bool                                  // starts runs
	Fails     bool                                  // never completes: the run continues only if the failure is ignored
	Inline    bool                                  // executed by the engine, in a single attempt
	Lasts     bool                                  // only if Inline: can take long, limited by timeoutMs
	Responds  bool                                  // sets the output of the run

	// Gives describes the output more precisely than the output schema does, from the literal values
	// of input and config: for example, the fields that the config names. bound lists the inputs that
	// have connections. runInput is the schema of the workflow's input, or null. Gives may be nil.
	Gives func(input, config, runInput json.RawMessage, bound []string) []graph.Given
	// Expressions returns the errors in the expressions of the config, with pointers into the config.
	// known reports whether a name starts a path to a value outside of the input. nil: the config has no
	// expressions.
	Expressions func(config json.RawMessage, known func(name string) bool) []fault.Detail
	// Review returns warnings, and faults because of which the component can never work, with
	// pointers below /input or /config. It may be nil.
	Review func(input, config json.RawMessage, bound []string, known func(name string) bool) (faults, warnings []fault.Detail)

	// RunInput returns the schema of the run's input in a config; nil: any input.
	RunInput func(config json.RawMessage) json.RawMessage
}

// director is implemented by control flow modules.
type director interface{ Flow() Flow }

// Flow returns how the module behaves in a graph.
func (e *Entry) Flow() Flow {
	if module, ok := e.module.(director); ok {
		return module.Flow()
	}
	return Flow{}
}

// Review returns warnings about a component in a workflow, and faults because of which the
// component can never work. Pointers are below /input or /config. bound are the inputs with
// connections. known reports whether a name starts a path.
func (e *Entry) Review(input, config json.RawMessage, bound []string, known func(name string) bool) (faults, warnings []fault.Detail) {
	if review := e.Flow().Review; review != nil {
		faults, warnings = review(input, config, bound, known)
	}
	return append(faults, e.userInfo(input, config)...), warnings
}
