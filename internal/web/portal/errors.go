package portal

import (
	"fmt"
	"strings"
	"sync"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signcheck"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// codeKinds maps the kinds of codes to the prefixes of their anchors. guides/codes has a file
// per kind. The prefixes are needed because some names exist in several kinds.
var codeKinds = map[string]string{
	"requests": "", "reasons": "reason.", "workflows": "workflow.", "executions": "execution.", "expressions": "expression.",
	"warnings": "warning.", "connections": "connection.", "skips": "skip.", "causes": "cause.",
}

// codeGroup is a group of codes with a heading. A group without a name is directly below the
// kind's heading.
type codeGroup struct {
	Name  string
	Codes []code
}

// code is the documentation of one code.
type code struct {
	Name, Anchor            string
	Means, Cause, Do, Again string

	// For codes of error responses, as in the service.
	Statuses, Title string
	Retryable       bool
}

// codes returns the entries of a kind, in the order of its file.
func codes(kind string) ([]codeGroup, error) {
	prefix, known := codeKinds[kind]
	text, err := guideFiles.ReadFile("guides/codes/" + kind + ".md")
	if err != nil || !known {
		return nil, fmt.Errorf("unknown kind of codes %s: %w", kind, err)
	}
	groups, err := readCodes(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the codes of the kind %s: %w", kind, err)
	}
	for _, group := range groups {
		for i := range group.Codes {
			c := &group.Codes[i]
			c.Anchor = prefix + c.Name
			switch kind {
			case "requests":
				c.answered(fault.Code(c.Name))
			case "causes":
				if c.Means == "" {
					c.Means = signcheck.Code(c.Name).Found().Text
				}
			}
			if c.Means == "" {
				return nil, fmt.Errorf("code %s has no meaning", c.Anchor)
			}
		}
	}
	return groups, nil
}

// readCodes parses a file of codes. A line with # starts a group, and a line with ## starts a code.
// The lines of a code are its meaning, unless the service defines the meaning, and one line each
// for Cause, Do and Again.
func readCodes(text string) ([]codeGroup, error) {
	groups := []codeGroup{{}}
	var c *code
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		group := &groups[len(groups)-1]
		if name, ok := strings.CutPrefix(line, "# "); ok {
			groups, c = append(groups, codeGroup{Name: name}), nil
			continue
		}
		if name, ok := strings.CutPrefix(line, "## "); ok {
			group.Codes = append(group.Codes, code{Name: name})
			c = &group.Codes[len(group.Codes)-1]
			continue
		}
		if line == "" {
			continue
		}
		if c == nil || !c.set(line) {
			return nil, fmt.Errorf("line %.60q belongs to no code, or repeats a field", line)
		}
	}
	if len(groups[0].Codes) == 0 {
		groups = groups[1:]
	}
	return groups, nil
}

// set stores a line in its field. It reports whether the field was empty.
func (c *code) set(line string) bool {
	at := &c.Means
	for key, field := range map[string]*string{"Cause: ": &c.Cause, "Do: ": &c.Do, "Again: ": &c.Again} {
		if rest, ok := strings.CutPrefix(line, key); ok {
			at, line = field, rest
		}
	}
	if *at != "" {
		return false
	}
	*at = line
	return true
}

// answered sets the statuses, the title and whether a retry can succeed, as in the service.
func (c *code) answered(name fault.Code) {
	c.Title, c.Retryable = protocol.Describe(name)
	statuses := []string{fmt.Sprint(protocol.Status(&fault.Error{Code: name}))}
	for _, variant := range []*fault.Error{{Code: name, Unprocessable: name == fault.InvalidInput}, {Code: name, Reason: reasonOf(name)}} {
		if status := fmt.Sprint(protocol.Status(variant)); status != statuses[0] {
			statuses = append(statuses, status)
		}
	}
	c.Statuses = strings.Join(statuses, ", ")
}

// reasonOf returns the reason that changes the status of a code, or "".
func reasonOf(code fault.Code) string {
	if code == fault.PayloadTooLarge {
		return protocol.ReasonHeaders
	}
	return ""
}

// meanings maps the anchors of codes to their meanings, for the search.
var meanings = sync.OnceValues(func() (map[string]string, error) {
	all := map[string]string{}
	for kind := range codeKinds {
		groups, err := codes(kind)
		if err != nil {
			return nil, err
		}
		for _, group := range groups {
			for _, c := range group.Codes {
				all[c.Anchor] = c.Means
			}
		}
	}
	return all, nil
})
