package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// About holds what references to a run can read, besides what Run holds.
type About struct {
	WorkflowID      uuid.UUID
	WorkflowName    string
	WorkflowKey     string
	WorkflowVersion int32
	Metadata        json.RawMessage // nil: none
	RerunOf         *uuid.UUID
	URL             string // of its page in the console; empty: unknown
}

// values has the values to which a component refers in a scope.
type values struct {
	a       *Advance
	found   map[string]json.RawMessage // by reference; nil: missing
	decoded map[string]any
	// neutral replaces what differs in every run by its name, and times by one time,
	// so that a rerun has the same values.
	neutral bool
}

// referenced returns the values to which a component refers.
func (a *Advance) referenced(sc *scope, componentID string, b *binding) (*values, error) {
	v := &values{a: a, found: map[string]json.RawMessage{}, decoded: map[string]any{}}
	for _, source := range a.Plan.References(componentID) {
		value, err := a.value(sc, source, b)
		if err != nil {
			return nil, err
		}
		v.found[source.Reference()] = value
	}
	return v, nil
}

// get returns the value of a path. It is the Value of expression.Context.
func (v *values) get(p reference.Path) (value any, exists bool) {
	if p.Named {
		return v.named(p)
	}
	name := p.String()
	if value, exists := v.decoded[name]; exists {
		return value, true
	}
	raw := v.found[name]
	if raw == nil {
		return nil, false
	}
	value, err := strictjson.Decode(raw)
	v.decoded[name] = value
	return value, err == nil
}

// named returns the value of a path that starts with a name of the language.
func (v *values) named(p reference.Path) (value any, exists bool) {
	switch run := v.a.Run; {
	case p.Root == reference.Env:
		value, exists := v.a.Variables.Values[p.Segments[0]]
		return value, exists
	case v.neutral && (p.Root == reference.Now || p.Segments[0] == "startedAt"):
		return timestamp.Of(time.Unix(0, 0)).String(), true // a time, with which expressions calculate
	case v.neutral && slices.Contains([]string{"id", "url", "trigger", "rerunOf"}, p.Segments[0]):
		return p.String(), true
	case p.Root == reference.Now:
		return timestamp.Of(v.a.At).String(), true
	case p.Segments[0] == "metadata":
		raw, exists := graph.SelectSegments(v.a.About.Metadata, p.Segments[1:])
		if !exists || len(raw) == 0 {
			return nil, false
		}
		value, err := strictjson.Decode(raw)
		return value, err == nil
	default:
		switch p.String() {
		case "run.id":
			return run.ID.String(), true
		case "run.startedAt":
			return timestamp.Of(run.CreatedAt).String(), true
		case "run.trigger":
			return run.Trigger, true
		case "run.url":
			return v.a.About.URL, v.a.About.URL != ""
		case "run.rerunOf":
			if v.a.About.RerunOf == nil {
				return nil, false
			}
			return v.a.About.RerunOf.String(), true
		case "run.workflow.id":
			return v.a.About.WorkflowID.String(), true
		case "run.workflow.key":
			return v.a.About.WorkflowKey, true
		case "run.workflow.name":
			return v.a.About.WorkflowName, true
		case "run.workflow.version":
			return int64(v.a.About.WorkflowVersion), true
		}
	}
	return nil, false
}

// fillReferences resolves the references of the stage's component, and records the secrets that reach it.
func (a *Advance) fillReferences(sc *scope, t *Stage, written graph.Component, b *binding) (err error) {
	if t.values, err = a.referenced(sc, written.ID, b); err != nil {
		return err
	}
	into := &template.Values{Value: t.values.get}
	if t.Component, err = a.resolve(written, into); b.secret || a.usesSecret(written) {
		for _, value := range into.Results {
			raw, _ := strictjson.Encode(value) // it was encoded before
			b.texts = append(b.texts, component.Texts(raw)...)
		}
	}
	return err
}

// usesSecret reports whether a component refers to a secret variable.
func (a *Advance) usesSecret(c graph.Component) bool {
	names := slices.Concat(envref.Names(c.Input, c.Config), a.Plan.Variables(c.ID))
	return slices.ContainsFunc(names, a.Variables.secret)
}

// neutralBinding returns the input and the config from which the effect key of a stage is computed: those
// that it has, with the names of what differs in every run instead of the values. So a rerun that sends
// the same data sends the same key.
func (a *Advance) neutralBinding(sc *scope, t *Stage) (input, config json.RawMessage) {
	input, config = t.call.Input, t.call.Config
	if !a.Plan.AboutRun(t.Component.ID) {
		return input, config
	}
	written, _ := a.Plan.Component(t.Component.ID)
	neutral := *t.values
	neutral.neutral = true
	filled, err := a.resolve(written, &template.Values{Value: neutral.get})
	if err != nil {
		return input, config // a name does not fit where the value does
	}
	bound, _, err := a.bind(sc, filled)
	if err != nil {
		return input, config
	}
	return bound, Object(filled.Config)
}

// knowsFailures reports whether the errors of a component in all iterations that start with prefix are
// known. If not, they are added to the need.
func (a *Advance) knowsFailures(source graph.Source, prefix []int32) bool {
	p, known := PlaceOf(source.From, prefix), true
	if _, read := a.failures[p]; !read && !a.unstored() {
		add(&a.need.Failures, p)
		known = false
	}
	loop := a.Plan.Loop(source.From)
	for range source.Collected {
		known = a.knowsBelow(loop, prefix) && known
		loop = a.Plan.Loop(loop)
	}
	return known
}
