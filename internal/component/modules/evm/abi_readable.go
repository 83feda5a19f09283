package evm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// This file parses human-readable signatures in Solidity syntax: function balanceOf(address owner)
// view returns (uint256), event Transfer(address indexed from, ...), error Denied(address), and the
// canonical form that selectors use, transfer(address,uint256). Structs are written inline, as
// tuples.

// modifiers are the words that may follow the parameters of a declaration.
var modifiers = []string{"public", "external", "internal", "private", "view", "pure", "payable", "nonpayable", "constant", "virtual", "override", "anonymous"}

// locations are the words that may appear between a type and a name.
var locations = []string{"memory", "calldata", "storage", "indexed", "payable"}

// addReadable parses a declaration and adds it to the list of its kind.
func (c *contractABI) addReadable(text string) error {
	p := &signatureParser{rest: strings.TrimSuffix(strings.TrimSpace(text), ";")}
	kind := p.word()
	switch kind {
	case "function", "event", "error":
		p.space()
	case "constructor", "receive", "fallback":
		if p.peek() != '(' {
			return p.failed("(")
		}
	default:
		return fmt.Errorf("expected a signature that starts with function, event, error or constructor, got %s", describe(text))
	}
	s := signature{name: kind}
	if slices.Contains([]string{"function", "event", "error"}, kind) {
		s.name = p.word()
	}
	var err error
	if s.inputs, err = p.parameters(0); err != nil {
		return err
	}
	for p.peek() != 0 {
		switch word := p.word(); {
		case word == "returns" && kind == "function" && s.outputs == nil:
			if s.outputs, err = p.parameters(0); err != nil {
				return err
			}
		case word == "" || !slices.Contains(modifiers, word):
			return p.failed("returns, view, or the end")
		case word == "anonymous":
			s.anonymous = kind == "event"
		}
	}
	return c.add(kind, s)
}

// parseSignature parses the form name(types). It expands aliases such as uint.
func parseSignature(text string) (signature, error) {
	p := &signatureParser{rest: strings.TrimSpace(text)}
	s := signature{name: p.word()}
	var err error
	if s.inputs, err = p.parameters(0); err != nil {
		return s, err
	}
	if !identifier(s.name) || p.peek() != 0 {
		return s, p.failed("a signature such as transfer(address,uint256)")
	}
	return s.hashed(), nil
}

type signatureParser struct{ rest string }

func (p *signatureParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// peek skips white space and returns the next character, or 0 at the end.
func (p *signatureParser) peek() byte {
	if p.space(); p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// word consumes and returns a word of letters, digits, $ and _. The word may be empty.
func (p *signatureParser) word() string {
	p.space()
	end := strings.IndexFunc(p.rest, func(r rune) bool {
		return r != '$' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	return word
}

// accept consumes the character if it is next and reports whether it did.
func (p *signatureParser) accept(character byte) bool {
	if p.peek() != character {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *signatureParser) failed(expected string) error {
	if p.peek() == 0 {
		return fmt.Errorf("expected %s, got the end of the signature", expected)
	}
	return fmt.Errorf("expected %s, got %s", expected, describe(p.rest))
}

func (p *signatureParser) parameters(depth int) ([]parameter, error) {
	if depth > maxTypeDepth {
		return nil, fmt.Errorf("arrays and tuples can be nested %d deep", maxTypeDepth)
	}
	if !p.accept('(') {
		return nil, p.failed("(")
	}
	list := []parameter{}
	if p.accept(')') {
		return list, nil
	}
	for {
		one, err := p.parameter(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
		if p.accept(')') {
			return list, nil
		}
		if !p.accept(',') {
			return nil, p.failed(", or )")
		}
	}
}

func (p *signatureParser) parameter(depth int) (parameter, error) {
	var one parameter
	var err error
	base := p.word()
	if p.peek() == '(' && (base == "" || base == "tuple") {
		var fields []parameter
		if fields, err = p.parameters(depth + 1); err != nil {
			return one, err
		}
		one.kind, err = tupleOf(fields)
	} else {
		one.kind, err = elementaryType(base)
	}
	if err != nil {
		return one, err
	}
	suffixes := ""
	for p.peek() == '[' {
		end := strings.IndexByte(p.rest, ']')
		if end < 0 || end > maxShown {
			return one, p.failed("]")
		}
		suffixes += strings.ReplaceAll(p.rest[:end+1], " ", "")
		p.rest = p.rest[end+1:]
	}
	if one.kind, err = arraysOf(one.kind, suffixes); err != nil {
		return one, err
	}
	for one.name = p.word(); slices.Contains(locations, one.name); one.name = p.word() {
		one.indexed = one.indexed || one.name == "indexed"
	}
	if one.name != "" && !identifier(one.name) {
		return one, errors.New("expected a name that starts with a letter, $ or _, got " + describe(one.name))
	}
	return one, nil
}
