package template

import (
	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// token returns what stands for the access token that an expression is, and whether it is one.
func (v *Values) token(p *expression.Program, address bool) (mark string, is bool) {
	if v.Token == nil || !isEnv(p) {
		return "", false
	}
	path, _ := p.Path()
	return v.Token(path.Segments[0], address)
}

// Refers reports whether the string refers to one of the variables.
func (t *Text) Refers(to func(variable string) bool) bool {
	for _, path := range t.Paths() {
		if isVariable(path, to) {
			return true
		}
	}
	return false
}

func isVariable(path reference.Path, to func(variable string) bool) bool {
	return path.Named && path.Root == reference.Env && len(path.Segments) == 1 && to(path.Segments[0])
}

// MisplacedToken returns why an access token cannot stand where the string has one, or "". In an address, that
// may only be known when it is filled.
func (t *Text) MisplacedToken(isToken func(variable string) bool, address bool) string {
	prefix, known := "", true
	for _, one := range t.parts {
		switch {
		case one.program == nil:
			prefix += one.text
			continue
		case !isEnv(one.program):
			for _, path := range one.program.Paths() {
				if isVariable(path, isToken) {
					return "an access token (a variable of the kind oauth2) can stand alone or next to text, but not in an expression"
				}
			}
		default:
			if path, _ := one.program.Path(); isVariable(path, isToken) && address && known {
				if _, err := prefixOrigin(prefix); err != nil {
					return "an access token (a variable of the kind oauth2) can stand in the path and the query of an address only"
				}
			}
		}
		known = false // the prefix has a value, whose place was checked, or a variable
	}
	return ""
}
