// Package component defines modules, and checks and runs one call of a module safely.
//
// It holds the table of modules with their compiled schemas, finds the secret fields of a call,
// and contains modules that panic, hang or return invalid output. It doesn't depend on the
// queue, the database, the HTTP server or any particular module. The modules are in
// modules/<family>.
//
// Run always returns within the call's deadline plus a short grace period, even if the module
// misbehaves, and no text that it returns contains a secret.
package component

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/credit"
)

// Effect is the kind of side effect of a module.
type Effect string

// The effects of a module.
const (
	EffectNone  Effect = "none"  // a function of its input, or random
	EffectRead  Effect = "read"  // reads external state
	EffectWrite Effect = "write" // changes external state
)

// Repeat is the rule for a call that was interrupted by a crash.
type Repeat string

// The repeat rules of a module.
const (
	RepeatPure       Repeat = "pure"       // run again
	RepeatIdempotent Repeat = "idempotent" // run again: a second call has no additional effect
	RepeatUnsafe     Repeat = "unsafe"     // don't run again: the outcome is unknown
)

// Mode is a way in which a module can be executed.
type Mode string

// The execution modes of a module.
const (
	ModeComponent Mode = "COMPONENT" // outside a workflow
	ModeWorkflow  Mode = "WORKFLOW"  // as a stage of a workflow run
)

// Descriptor describes a module in the catalogue.
//
// Input, Config and Output are JSON Schemas (2020-12) of type object. A value marked `x-secret:
// true` is sealed at rest and redacted everywhere except in the output itself. Fields that
// `properties` doesn't declare are dropped before the module runs, unless the schema has
// additionalProperties or patternProperties.
type Descriptor struct {
	Module      string // UPPER_SNAKE, unique, stored data: never renamed
	Title       string
	Description string
	Category    string
	Input       json.RawMessage
	Config      json.RawMessage
	Output      json.RawMessage
	Price       credit.Amount
	Timeout     time.Duration // of one attempt, including waits
	Effect      Effect
	Repeat      Repeat
	Modes       []Mode
}

// Object returns the JSON Schema of an object with these keywords, such as `"properties": {}`.
func Object(keywords string) json.RawMessage {
	return json.RawMessage(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", ` + keywords + `}`)
}

// NoFields are the keywords of an object without fields.
const NoFields = `"description": "No fields.", "properties": {}, "examples": [{}]`

// Anywhere returns the modes of a module that runs on its own and in workflows.
func Anywhere() []Mode { return []Mode{ModeComponent, ModeWorkflow} }

// Computation describes a module that only computes its output from its input, or at random. Input,
// Config and Output are keywords of objects; "" means NoFields.
type Computation struct {
	Module, Title, Description, Category string
	Input, Config, Output                string
}

// Descriptor returns the description of the module.
func (c Computation) Descriptor() Descriptor {
	return Descriptor{
		Module: c.Module, Title: c.Title, Description: c.Description, Category: c.Category,
		Input: Object(cmp.Or(c.Input, NoFields)), Config: Object(cmp.Or(c.Config, NoFields)), Output: Object(cmp.Or(c.Output, NoFields)),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: EffectNone, Repeat: RepeatPure, Modes: Anywhere(),
	}
}

// Module is one component of the library.
//
// Run does the work of one call, or polls once and returns a Wait. It must respect ctx. An error
// for the caller is a *Error; any other error becomes INTERNAL_ERROR without its text.
//
// Optional methods: `RepeatFor(call Call) Repeat` if the repeat rule depends on the call.
// `Formats() map[string]func(string) error` if the schemas use custom formats; the errors describe
// the expected value and never quote the actual value. `Open(name string) bool` if a secret field
// also contains values that aren't secret, such as the Accept header; Open reports whether the
// value with this name isn't secret.
type Module interface {
	Describe() Descriptor
	Run(ctx context.Context, call Call) (Result, error)
}

// Call is one call of a module. An execution makes several calls if it is retried or if the module
// waits.
type Call struct {
	ExecutionID uuid.UUID
	// EffectKey identifies the side effect of the call, for an upstream that supports idempotency
	// keys. All attempts have the same key, and so do stages of a rerun with the same input and
	// config.
	EffectKey uuid.UUID
	Attempt   int // from 1
	Input     json.RawMessage
	Config    json.RawMessage
	State     json.RawMessage // state of the last Wait of this attempt; nil in the first call
	// Secrets are values to redact in errors, in addition to the values that the schemas mark.
	// Secrets aren't passed to the module.
	Secrets []string

	done func() // ends the call's turn; nil: it has none
}

// Result is an output, or a request to be called again later.
type Result struct {
	Output json.RawMessage
	Wait   *Wait
}

// Wait requests a repeated call after a delay. A wait doesn't occupy a worker.
type Wait struct {
	After time.Duration   // capped at MaxWait
	State json.RawMessage // passed to the next call in Call.State; stored like an output
}

// Limits on what a module may return.
const (
	MaxOutput = 1 << 20         // bytes of an output (decisions 4.4)
	MaxState  = 64 << 10        // bytes of the state of a Wait
	MaxWait   = 5 * time.Second // between two polls
	minWait   = 20 * time.Millisecond
)

// An access token is put into the input and the config of a call just before each attempt. Until then, a
// mark stands for it, which is random for each run: it has letters and digits only, so it stands the same in
// JSON, in addresses and in headers. A digit at its end says whether it stands in an address.
const (
	plainToken   = "0"
	addressToken = "1"
)

// TokenMark returns the mark that stands for a token in a string or in an address.
func TokenMark(mark string, address bool) string {
	if address {
		return mark + addressToken
	}
	return mark + plainToken
}

// TokenMarks returns all marks of the tokens, to be hidden.
func TokenMarks(tokens map[string]string) (marks []string) {
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		marks = append(marks, TokenMark(tokens[name], false), TokenMark(tokens[name], true))
	}
	return marks
}

// PutToken replaces the marks of a token in a call by the token.
func (c *Call) PutToken(mark, token string) {
	quoted, _ := json.Marshal(token) // a string can always be encoded
	inText := quoted[1 : len(quoted)-1]
	inAddress := []byte(strings.ReplaceAll(url.QueryEscape(token), "+", "%20")) // fits paths too
	for _, part := range []*json.RawMessage{&c.Input, &c.Config} {
		*part = bytes.ReplaceAll(*part, []byte(TokenMark(mark, false)), inText)
		*part = bytes.ReplaceAll(*part, []byte(TokenMark(mark, true)), inAddress)
	}
	secrets := slices.Clone(c.Secrets)
	for i := range secrets {
		secrets[i] = strings.ReplaceAll(secrets[i], TokenMark(mark, false), token)
	}
	c.Secrets = append(secrets, token, string(inAddress))
}
