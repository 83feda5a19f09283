// Package graph defines what a graph of components means: which definitions of workflows are
// valid, which components are ready, and how a value gets from an output into an input (decisions
// 8.1 to 8.6).
//
// It is pure: it knows nothing of storage, time, logging or what a module does. The caller keeps
// the states of the stages and asks again. The one invariant: the answer of Next depends on the
// states alone, not on the order in which stages became final.
package graph

import (
	"encoding/json"
)

// The ports with a meaning of their own (decisions 8.2).
const (
	PortNext    = "next"    // what fires where a module says nothing else
	PortError   = "error"   // of any component: fires alone, when it failed
	PortEach    = "each"    // of FOR_EACH: leads into the body
	PortDone    = "done"    // of FOR_EACH: fires when it completed; next is the same
	PortThen    = "then"    // of a condition that holds
	PortElse    = "else"    // of a condition that does not
	PortDefault = "default" // of a switch no case of which was taken
	PortTimeout = "timeout" // of a wait that nothing ended
)

// What a failure that no edge handles does (decisions 8.1).
const (
	OnFailureFail     = "fail" // ends the scope
	OnFailureContinue = "continue"
)

// Outputs of a FOR_EACH inside its body (decisions 8.5).
const (
	OutputItem  = "item"
	OutputIndex = "index"
)

// Definition is a workflow as its author drew it.
type Definition struct {
	InputSchema     json.RawMessage `json:"inputSchema"`
	Components      []Component     `json:"components"`
	SequenceEdges   []Edge          `json:"sequenceEdges"`
	DataConnections []Connection    `json:"dataConnections"`
	Triggers        json.RawMessage `json:"triggers"`
}

// Component is one use of a module. Zero values of Attempts, TimeoutMs and
// OnFailure are the module's own.
type Component struct {
	ID        string          `json:"id"`
	Module    string          `json:"module"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Config    json.RawMessage `json:"config"`
	Position  *[2]float64     `json:"position"`
	Attempts  int             `json:"attempts,omitempty"`
	TimeoutMs int             `json:"timeoutMs,omitempty"`
	OnFailure string          `json:"onFailure,omitempty"`
}

// Edge leads from a port of one component to another component.
type Edge struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
}

// UnmarshalJSON reads an edge; without a port it is one of `next`.
func (e *Edge) UnmarshalJSON(data []byte) error {
	type plain Edge
	read := plain{Port: PortNext}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*e = Edge(read)
	return nil
}

// Connection copies an output of one component into an input of another.
type Connection struct {
	ID   string `json:"id"`
	From Output `json:"from"`
	To   Input  `json:"to"`
}

// Output is an output of a component, by name or by dotted path.
type Output struct {
	ComponentID string `json:"componentId"`
	Output      string `json:"output"`
}

// Input is an input of a component, by name or by dotted path.
type Input struct {
	ComponentID string `json:"componentId"`
	Input       string `json:"input"`
}

// Module is what a plan has to know of a module.
//
// A schema without additionalProperties and patternProperties names all members
// of the value itself, as in the catalogue; one that is nil says nothing.
type Module struct {
	Ports     []string                              // beside `error`; nil: `next`
	CasePorts func(config json.RawMessage) []string // further ports, that the config names
	Loop      bool                                  // a FOR_EACH: `each`, `done` and `next`
	Trigger   bool                                  // where a run begins
	Fails     bool                                  // never completes
	Inline    bool                                  // a run does it itself: it has one attempt
	Lasts     bool                                  // of one that is Inline: it may take time, which timeoutMs limits

	Input, Config, Output json.RawMessage // JSON Schemas

	// Gives returns what is known of the output from the literals; nil: nothing more than Output
	// says. runInput is the schema of the workflow's input. It may be nil.
	Gives func(input, config, runInput json.RawMessage, bound []string) []Given
	// Review is Check for what is wrong only since it can never work, and for what is
	// suspicious. It may be nil.
	Review func(input, config json.RawMessage, bound []string) (problems, warnings []Problem)
	// Check finds the faults of the literals, with pointers that begin with
	// /input or /config. Inputs in bound get their values by connections and are
	// no fault when they are absent. It may be nil.
	Check func(input, config json.RawMessage, bound []string) []Problem
}

// Given is what is known of the output of a component: two JSON Schemas.
type Given struct {
	Possible json.RawMessage // what can be there
	Declared json.RawMessage // what the author said is there; nil: Possible
}

// Library knows the modules.
type Library interface {
	Module(name string) (Module, bool)
	// Unknown says that there is no module of a name, and what to do about it.
	Unknown(name string) string
}

// Problem is one fault of a definition: where (RFC 6901), which rule it breaks,
// and in words that name what is concerned.
type Problem struct {
	Pointer string
	Code    string
	Message string
}

// The codes of problems. They are stable.
const (
	CodeTooManyComponents  = "TOO_MANY_COMPONENTS"
	CodeTooManyEdges       = "TOO_MANY_EDGES"
	CodeTooManyConnections = "TOO_MANY_CONNECTIONS"
	CodeInvalidID          = "INVALID_ID"
	CodeDuplicateID        = "DUPLICATE_ID"
	CodeUnknownModule      = "UNKNOWN_MODULE"
	CodeInvalidSetting     = "INVALID_SETTING" // attempts, timeoutMs, onFailure
	CodeUnknownComponent   = "UNKNOWN_COMPONENT"
	CodeUnknownPort        = "UNKNOWN_PORT"
	CodeSelfEdge           = "SELF_EDGE"
	CodeIntoTrigger        = "INTO_TRIGGER"
	CodeCycle              = "CYCLE"
	CodeUnreachable        = "UNREACHABLE"
	CodeLoopEntry          = "LOOP_ENTRY"
	CodeLoopEscape         = "LOOP_ESCAPE"
	CodeLoopTooDeep        = "LOOP_TOO_DEEP"
	CodeUnknownOutput      = "UNKNOWN_OUTPUT"
	CodeUnknownInput       = "UNKNOWN_INPUT"
	CodeInputTaken         = "INPUT_TAKEN" // two connections into one input
	CodeTypeMismatch       = "TYPE_MISMATCH"
	CodeMissingInput       = "MISSING_INPUT"
	CodeInvalidInput       = "INVALID_INPUT" // literals, and what Check gives no code for
)

// The codes of warnings. They are stable.
const (
	WarnTimeout     = "TIMEOUT_UNHANDLED"
	WarnBody        = "LOOP_WITHOUT_BODY"
	WarnBranch      = "BRANCH_WITHOUT_EDGES"
	WarnCase        = "CASE_WITHOUT_EDGE"
	WarnName        = "NAME_NOT_BROUGHT"
	WarnPlaceholder = "PLACEHOLDER_NOT_FILLED"
	WarnOutput      = "OUTPUT_NOT_DECLARED"
)
