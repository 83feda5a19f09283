// Package component defines what a module is, and checks and runs one call of a module safely.
//
// It holds the table of modules with their compiled schemas, knows which fields are secret, and
// contains modules that panic, hang or return invalid output. It knows nothing of the queue, the
// database or the HTTP server, and of no particular module: those are in modules/<family>.
//
// The one invariant: whatever a module does, Run returns within the call's deadline plus a short
// grace period, and no text that it returns contains a secret.
package component

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/credit"
)

// Effect says what a module does to the world outside.
type Effect string

// The effects of a module.
const (
	EffectNone  Effect = "none"  // a function of its input (or of chance)
	EffectRead  Effect = "read"  // reads the outside
	EffectWrite Effect = "write" // changes the outside
)

// Repeat says what may happen to a call that a crash cut off.
type Repeat string

// The repeat rules of a module.
const (
	RepeatPure       Repeat = "pure"       // run again freely
	RepeatIdempotent Repeat = "idempotent" // run again: the second time has no further effect
	RepeatUnsafe     Repeat = "unsafe"     // never again: the outcome is unknown
)

// Mode is a way in which a module can be executed.
type Mode string

// The execution modes of a module.
const (
	ModeComponent Mode = "COMPONENT" // on its own
	ModeWorkflow  Mode = "WORKFLOW"  // as a stage of a workflow run
)

// Descriptor is what the catalogue says about a module.
//
// Input, Config and Output are JSON Schemas (2020-12) of type object. A value
// marked `x-secret: true` is sealed at rest and redacted everywhere but in the
// output itself. Members that `properties` does not name are dropped before
// the module sees them, unless the schema has additionalProperties or
// patternProperties.
type Descriptor struct {
	Module      string // UPPER_SNAKE, unique, stored data: never renamed
	Title       string
	Description string
	Category    string
	Input       json.RawMessage
	Config      json.RawMessage
	Output      json.RawMessage
	Price       credit.Amount
	Timeout     time.Duration // of one attempt, waits included
	Effect      Effect
	Repeat      Repeat
	Modes       []Mode
}

// Module is one component of the library.
//
// Run does the work of one call, or looks once and returns a Wait. It must
// honour ctx. An error that the caller should see is a *Error; every other
// error reaches the caller as INTERNAL_ERROR without its text.
//
// A module whose repeat rule depends on the call also has
// `RepeatFor(call Call) Repeat`; one whose schemas use formats beyond the
// standard ones also has `Formats() map[string]func(string) error`, whose
// errors say what was expected and never quote the value; one in whose secret
// fields some values are no secrets, such as an Accept among headers, also has
// `Open(name string) bool`, which tells so by the name of the member.
type Module interface {
	Describe() Descriptor
	Run(ctx context.Context, call Call) (Result, error)
}

// Call is one call of a module. The same execution makes several when it is
// attempted again or when the module waits.
type Call struct {
	ExecutionID uuid.UUID
	// EffectKey identifies what the call does outside, for an upstream that recognises
	// repeats by a key. All attempts have the same one, and so do the stages of a rerun that
	// take the same input and config.
	EffectKey uuid.UUID
	Attempt   int // from 1
	Input     json.RawMessage
	Config    json.RawMessage
	State     json.RawMessage // that of the last Wait of this attempt; nil at first
	// Secrets are values that no error shows, beside those that the schemas mark. The module
	// does not get them.
	Secrets []string
}

// Result is an output, or the wish to be called again later.
type Result struct {
	Output json.RawMessage
	Wait   *Wait
}

// Wait asks for another call after some time; no worker is held meanwhile.
type Wait struct {
	After time.Duration   // at most MaxWait; longer is cut
	State json.RawMessage // given back as Call.State; kept as the output would be
}

// Limits on what a module may return.
const (
	MaxOutput = 1 << 20         // bytes of an output (decisions 4.4)
	MaxState  = 64 << 10        // bytes of the state of a Wait
	MaxWait   = 5 * time.Second // between two looks
	minWait   = 20 * time.Millisecond
)
