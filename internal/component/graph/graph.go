// Package graph defines the meaning of a graph of components: which definitions of workflows are
// valid, which components are ready, and how a value gets from an output into an input (decisions
// 8.1 to 8.6).
//
// It is pure: it doesn't depend on storage, time, logging or the work of modules. The caller stores
// the states of the stages. The result of Next depends only on the states, not on the order in
// which stages became final.
package graph

import (
	"encoding/json"

	"github.com/weft-automation/weft/internal/component/template"
)

// Ports with a predefined meaning (decisions 8.2).
const (
	PortNext    = "next"    // fires if the module names no other port
	PortError   = "error"   // of any component: the only port that fires if it fails
	PortEach    = "each"    // of a loop: leads into the body
	PortDone    = "done"    // of a loop: fires when the loop completes; next is an alias
	PortThen    = "then"    // of a condition that is true
	PortElse    = "else"    // of a condition that is false
	PortDefault = "default" // of a switch without a matching case
	PortTimeout = "timeout" // of a wait that timed out
	// PortExhausted of a REPEAT fires when the limits of the loop leave no further iteration. Without an edge
	// from it, the loop fails instead.
	PortExhausted = "exhausted"
)

// Effect of a failure without an edge from the port error (decisions 8.1).
const (
	OnFailureFail     = "fail" // fails the scope
	OnFailureContinue = "continue"
)

// Outputs of a loop inside its body (decisions 8.5): a FOR_EACH has item and index, and a REPEAT state and
// index.
const (
	OutputItem  = "item"
	OutputState = "state"
	OutputIndex = "index"
)

// Definition is a workflow as its author wrote it.
type Definition struct {
	InputSchema     json.RawMessage `json:"inputSchema"`
	Retry           json.RawMessage `json:"retry,omitempty"` // of components without Retry and Attempts
	Components      []Component     `json:"components"`
	SequenceEdges   []Edge          `json:"sequenceEdges"`
	DataConnections []Connection    `json:"dataConnections"`
	Triggers        json.RawMessage `json:"triggers"`
}

// Component is one use of a module. Zero values of Attempts, TimeoutMs and OnFailure mean the
// defaults of the module.
type Component struct {
	ID        string          `json:"id"`
	Module    string          `json:"module"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Config    json.RawMessage `json:"config"`
	Position  *[2]float64     `json:"position"`
	Attempts  int             `json:"attempts,omitempty"`
	Retry     json.RawMessage `json:"retry,omitempty"` // a policy of package retry, instead of Attempts
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

// UnmarshalJSON decodes an edge. The default port is `next`.
func (e *Edge) UnmarshalJSON(data []byte) error {
	type plain Edge
	edge := plain{Port: PortNext}
	if err := json.Unmarshal(data, &edge); err != nil {
		return err
	}
	*e = Edge(edge)
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

// Module holds the properties of a module that a plan depends on.
//
// A schema without additionalProperties and patternProperties declares all fields of the value,
// as in the catalogue. A nil schema allows any value.
type Module struct {
	Ports     []string                              // in addition to `error`; nil: `next`
	CasePorts func(config json.RawMessage) []string // additional ports, named in the config
	Loop      bool                                  // a FOR_EACH or REPEAT: `each`, `done` and `next`, besides Ports
	Repeats   bool                                  // a REPEAT: its iterations run one after the other
	Continues bool                                  // a CONTINUE: ends an iteration of a REPEAT
	Trigger   bool                                  // runs start here
	Fails     bool                                  // never completes
	Inline    bool                                  // the engine runs it, in one attempt
	Lasts     bool                                  // the module is Inline and takes time, which timeoutMs limits
	Responds  bool                                  // sets the output of the run

	Input, Config, Output json.RawMessage // JSON Schemas
	// InputAddresses and ConfigAddresses are the places of the URLs to which calls go: JSON pointers in
	// which `*` stands for every field or item.
	InputAddresses, ConfigAddresses []string

	// Gives describes the output more precisely than Output does, from the literal values of input
	// and config: for example, the fields that the config names. bound lists the inputs that have
	// connections. runInput is the schema of the workflow's input. Gives may be nil.
	Gives func(input, config, runInput json.RawMessage, bound []string) []Given
	// Review is like Check, but returns warnings, and the problems because of which the component
	// can never work. Only new definitions must be free of these problems. Review may be nil.
	// known reports whether a name in an expression starts a path.
	Review func(input, config json.RawMessage, bound []string, known func(name string) bool) (problems, warnings []Problem)
	// Check returns the errors in the literals, with pointers that start with /input or /config.
	// Inputs in bound receive their values from connections, so the literals may lack them. Check
	// may be nil.
	Check func(input, config json.RawMessage, bound []string, known func(name string) bool) []Problem
}

// Given describes the output of a component with two JSON Schemas.
type Given struct {
	Possible json.RawMessage // fields that the output can have
	Declared json.RawMessage // fields that the author declared; nil: Possible
}

// Library looks up modules.
type Library interface {
	Module(name string) (Module, bool)
	// Unknown returns the message for a module that does not exist. The message suggests what to
	// do.
	Unknown(name string) string
}

// Problem is an error or a warning in a definition: a JSON pointer (RFC 6901), a stable code, and a
// message.
type Problem struct {
	Pointer string
	Code    string
	Message string
}

// Codes of errors. They never change.
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
	CodeNoContinue         = "CONTINUE_MISSING"   // a REPEAT without a CONTINUE
	CodeContinuePlace      = "CONTINUE_MISPLACED" // a CONTINUE that is not directly in a REPEAT, or has an edge from it
	CodeUnknownOutput      = "UNKNOWN_OUTPUT"
	CodeUnknownInput       = "UNKNOWN_INPUT"
	CodeInputTaken         = "INPUT_TAKEN" // two connections lead into the same input
	CodeTypeMismatch       = "TYPE_MISMATCH"
	CodeMissingInput       = "MISSING_INPUT"
	CodeInvalidReference   = "INVALID_REFERENCE"
	CodeInvalidAddress     = template.CodeAddress
	CodeInvalidInput       = "INVALID_INPUT" // an invalid literal, and errors of Check without a code
)

// Codes of warnings. They never change.
const (
	WarnTimeout    = "TIMEOUT_UNHANDLED"
	WarnBody       = "LOOP_WITHOUT_BODY"
	WarnBranch     = "BRANCH_WITHOUT_EDGES"
	WarnCase       = "CASE_WITHOUT_EDGE"
	WarnName       = "NAME_NOT_BROUGHT"
	WarnText       = "REFERENCE_IS_TEXT"
	WarnExpression = "EXPRESSION_INVALID"
	WarnShadowed   = "INPUT_SHADOWED"
	WarnOutput     = "OUTPUT_NOT_DECLARED"
	WarnSource     = "SOURCE_MAY_NOT_RUN"
	WarnWord       = "INPUT_UNREADABLE"
	WarnLength     = "LENGTH_IS_FIELD"
	WarnRespond    = "RESPOND_IN_LOOP"
)
