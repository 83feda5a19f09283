package engine

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// token returns the mark that stands for a variable that is an access token.
func (v Variables) token(name string, address bool) (mark string, is bool) {
	mark, is = v.Tokens[name]
	return component.TokenMark(mark, address), is
}

// secret reports whether a variable is secret.
func (v Variables) secret(name string) bool {
	_, isToken := v.Tokens[name]
	return isToken || slices.Contains(v.Secrets, v.Values[name])
}

// marked returns the tokens whose marks stand in JSON texts.
func (v Variables) marked(texts ...json.RawMessage) (tokens map[string]string) {
	for name, mark := range v.Tokens {
		if slices.ContainsFunc(texts, func(text json.RawMessage) bool { return bytes.Contains(text, []byte(mark)) }) {
			if tokens == nil {
				tokens = map[string]string{}
			}
			tokens[name] = mark
		}
	}
	return tokens
}

// unmarked returns a JSON text with the names of tokens instead of their marks, which differ in every run.
func (v Variables) unmarked(text json.RawMessage) json.RawMessage {
	for name, mark := range v.Tokens {
		for _, inText := range component.TokenMarks(map[string]string{name: mark}) {
			text = bytes.ReplaceAll(text, []byte(inText), []byte("{{env."+name+"}}"))
		}
	}
	return text
}

// checkTokens returns INVALID_INPUT if a component has an access token where none can stand. A save checks
// that too, but a variable may have become a token since.
func (a *Advance) checkTokens(c graph.Component, entry *component.Entry) error {
	if len(a.Variables.Tokens) == 0 {
		return nil
	}
	_, control := controls[c.Module]
	pointer, reason := a.Plan.MisplacedToken(c.ID, !control && entry.Effect != component.EffectNone, func(name string) bool {
		_, is := a.Variables.Tokens[name]
		return is
	})
	if reason == "" {
		return nil
	}
	return &fault.Error{Code: fault.InvalidInput, Message: reason, Details: []fault.Detail{{Code: string(fault.InvalidInput), Message: reason, Pointer: pointer}}}
}
