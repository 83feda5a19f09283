package portal

import (
	"fmt"
	"strings"
	"sync"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signcheck"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// codeKinds are the kinds of codes that callers meet: guides/codes has a file of each, and
// an anchor of theirs begins so, because some names are of several kinds.
var codeKinds = map[string]string{
	"requests": "", "reasons": "reason.", "workflows": "workflow.", "executions": "execution.", "expressions": "expression.",
	"warnings": "warning.", "connections": "connection.", "skips": "skip.", "causes": "cause.",
}

// codeGroup is what stands below a heading of its own; without a name, below that of the kind.
type codeGroup struct {
	Name  string
	Codes []code
}

// code is the entry of a code.
type code struct {
	Name, Anchor            string
	Means, Cause, Do, Again string

	// Of answers to requests, as the service gives them.
	Statuses, Title string
	Retryable       bool
}

// codes are the entries of a kind, in the order of its file.
func codes(kind string) ([]codeGroup, error) {
	prefix, known := codeKinds[kind]
	text, err := guideFiles.ReadFile("guides/codes/" + kind + ".md")
	if err != nil || !known {
		return nil, fmt.Errorf("there are no codes of the kind %s: %w", kind, err)
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
				return nil, fmt.Errorf("nothing says what %s means", c.Anchor)
			}
		}
	}
	return groups, nil
}

// readCodes reads entries: a line that begins with # is a group, with ## a code. What
// follows is a line of what it means, where nothing else says it, and a line each of Cause,
// Do and Again.
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
		if c == nil || !c.take(line) {
			return nil, fmt.Errorf("the line %.60q belongs to nothing", line)
		}
	}
	if len(groups[0].Codes) == 0 {
		groups = groups[1:]
	}
	return groups, nil
}

// take puts a line where it belongs, if that is empty.
func (c *code) take(line string) bool {
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

// answered takes what the answer to a request with this code has beside it.
func (c *code) answered(name fault.Code) {
	c.Title, c.Retryable = protocol.Words(name)
	statuses := []string{fmt.Sprint(protocol.Status(&fault.Error{Code: name}))}
	for _, variant := range []*fault.Error{{Code: name, Unprocessable: name == fault.InvalidInput}, {Code: name, Reason: reasonOf(name)}} {
		if status := fmt.Sprint(protocol.Status(variant)); status != statuses[0] {
			statuses = append(statuses, status)
		}
	}
	c.Statuses = strings.Join(statuses, ", ")
}

// reasonOf is the reason by which a code has another status.
func reasonOf(code fault.Code) string {
	if code == fault.PayloadTooLarge {
		return protocol.ReasonHeaders
	}
	return ""
}

// meanings say by anchor what codes mean, for the search.
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
