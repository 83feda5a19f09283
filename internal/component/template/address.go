package template

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/reference"
)

const maxAddress = 2048 // characters of a filled address

// Address is a string with references that says where a call goes. Its origin, which is the scheme, the
// host and the port, comes from text and environment variables only. Other values stand in its path and
// its query, percent-encoded, so that none can change the origin or the number of segments.
type Address struct{ *Text }

// CheckAddress returns what is wrong with an address that can be known before it is filled, or "".
// origins reports whether allowedOrigins stand next to it, and free whether it needs none.
func (t *Text) CheckAddress(origins, free bool) string {
	if t.Whole() != nil && !isEnv(t.Whole()) {
		if origins || free {
			return ""
		}
		return "a whole address from a reference needs allowedOrigins next to it, such as [\"https://api.example\"], or write its origin as text, such as https://api.example/users/{{ start.id }}"
	}
	prefix := ""
	for _, one := range t.parts {
		switch {
		case one.program == nil:
			prefix += one.text
		case isEnv(one.program):
			return "" // known when the address is filled
		case strings.Contains(prefix, "#"):
			return "a fragment is never sent, so it cannot contain a reference"
		default:
			if _, err := prefixOrigin(prefix); err != nil {
				return err.Message
			}
		}
	}
	return ""
}

// isEnv reports whether an expression is an environment variable, and nothing else.
func isEnv(p *expression.Program) bool {
	path, whole := p.Path()
	return whole && path.Named && path.Root == reference.Env
}

// prefixOrigin returns the origin of the text before the first value of an address.
func prefixOrigin(prefix string) (string, *Error) {
	scheme, rest, isURL := strings.Cut(prefix, "://")
	end := strings.IndexAny(rest, "/?")
	if !isURL || end < 0 {
		return "", errorf(CodeAddress, "values of the run may stand in the path and the query of an address only: before the first one, expected scheme://host/ or scheme://host?")
	}
	return originOf(scheme + "://" + rest[:end])
}

// originOf returns the origin of an address, as the URL standard compares them.
func originOf(address string) (string, *Error) {
	u, err := url.Parse(address)
	scheme := ""
	if err == nil {
		scheme = strings.ToLower(u.Scheme)
	}
	switch {
	case err != nil || scheme != "http" && scheme != "https" || u.Hostname() == "" || strings.ContainsAny(address, "\\\x00"):
		return "", errorf(CodeAddress, "the address is not a URL with http or https and a host")
	case u.User != nil:
		return "", errorf(CodeAddress, "the address contains a user name or a password: send them in the header Authorization")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) + ":" + port, nil
}

// Fill is Text.Fill for an address. allowed are the origins that a whole address from a reference may
// have; free allows all.
func (a Address) Fill(v *Values, allowed []string, free bool) (value any, keep bool, err error) {
	program := a.Whole()
	if program == nil || isEnv(program) {
		f := filling{values: v}
		for _, one := range a.parts {
			if err := f.add(one); err != nil {
				return nil, false, err
			}
		}
		address, err := f.address()
		return address, true, err
	}
	value, keep, err = a.Text.Fill(v)
	if err != nil || !keep {
		return nil, keep, err
	}
	address, isText := value.(string)
	if !isText {
		return nil, false, errorf(CodeAddress, "the address is not a string")
	}
	if free {
		return address, true, nil
	}
	address, _, _ = strings.Cut(address, "#")
	origin, wrong := originOf(address)
	switch {
	case wrong != nil:
		return nil, false, wrong
	case len(address) > maxAddress:
		return nil, false, errorf(CodeAddress, "the address has more than %d characters", maxAddress)
	case !slices.ContainsFunc(allowed, func(one string) bool { return allows(one, origin) }):
		return nil, false, errorf(CodeOrigin, "the origin of the address is not one of allowedOrigins")
	}
	return address, true, nil
}

// allows reports whether an entry of allowedOrigins allows an origin. A star at the front of the host
// stands for one label.
func allows(entry, origin string) bool {
	scheme, host, _ := strings.Cut(entry, "://")
	suffix, star := strings.CutPrefix(host, "*.")
	if !star {
		exact, err := originOf(entry)
		return err == nil && exact == origin
	}
	exact, err := originOf(scheme + "://x." + suffix)
	if err != nil {
		return false
	}
	scheme, host, _ = strings.Cut(origin, "://")
	_, rest, labels := strings.Cut(host, ".")
	return labels && exact == scheme+"://x."+rest
}

// CheckOrigin returns what is wrong with an entry of allowedOrigins, or "".
func CheckOrigin(entry string) string {
	u, err := url.Parse(strings.Replace(entry, "://*.", "://x.", 1))
	if err != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.Host, "*") {
		return "is not an origin: expected a scheme and a host, such as https://api.example or https://*.shop.example"
	}
	if _, wrong := originOf(u.Scheme + "://" + u.Host); wrong != nil || u.User != nil {
		return "is not an origin: expected a scheme and a host, such as https://api.example or https://*.shop.example"
	}
	return ""
}

// filling is an address that is being filled.
type filling struct {
	values  *Values
	out     strings.Builder
	started bool  // a value was added, so the origin is known
	filled  []int // indexes in out at which values start
}

func (f *filling) add(one part) error {
	if one.program == nil {
		f.out.WriteString(one.text)
		return nil
	}
	mark, isToken := f.values.token(one.program, true)
	if isEnv(one.program) && !isToken { // the owner's text
		text, err := f.values.text(one.program)
		f.out.WriteString(text)
		return err
	}
	if !f.started {
		if _, err := prefixOrigin(f.out.String()); err != nil {
			return err
		}
		f.started = true
	}
	if isToken {
		f.filled = append(f.filled, f.out.Len())
		f.out.WriteString(mark)
		return nil
	}
	value, err := f.values.run(one.program)
	if err != nil {
		return err
	}
	f.filled = append(f.filled, f.out.Len())
	if strings.Contains(f.out.String(), "?") {
		return f.addQuery(one.program, value)
	}
	return f.addSegment(one.program, value)
}

// addSegment adds a value to the path. A list of strings becomes several segments.
func (f *filling) addSegment(p *expression.Program, value any) error {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	if isList && (len(list) == 0 || !strings.HasSuffix(f.out.String(), "/")) {
		return errorf(CodeAddress, "%s is a list, which must have items and stand between two slashes of the path", source(p))
	}
	for i, item := range list {
		text, err := f.scalar(p, item)
		if err != nil {
			return err
		}
		if _, isText := item.(string); isList && !isText {
			return errorf(CodeAddress, "%s is a list with an item that is not a string", source(p))
		}
		if i > 0 {
			f.out.WriteString("/")
			f.filled = append(f.filled, f.out.Len())
		}
		f.out.WriteString(strings.ReplaceAll(url.PathEscape(text), "+", "%2B"))
	}
	if isList {
		f.filled = append(f.filled, -f.out.Len()) // the path must go on with a slash
	}
	return nil
}

// addQuery adds a value to the query.
func (f *filling) addQuery(p *expression.Program, value any) error {
	text, err := f.scalar(p, value)
	if err != nil {
		return err
	}
	f.out.WriteString(url.QueryEscape(text))
	return nil
}

// scalar returns a value as text. It rejects lists, objects and null.
func (f *filling) scalar(p *expression.Program, value any) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", errorf(CodeMissing, "%s is null, which has no text", source(p))
	case []any, map[string]any:
		return "", errorf(CodeAddress, "%s is not a string, a number or a boolean, so it cannot stand here in an address", source(p))
	case string:
		if strings.Contains(value, "\x00") {
			return "", errorf(CodeAddress, "%s contains U+0000", source(p))
		}
		return value, f.values.grow(len(value))
	default:
		encoded, err := json.Marshal(value)
		if err != nil {
			return "", errorf(CodeInvalid, "the result cannot be encoded as JSON")
		}
		return string(encoded), f.values.grow(len(encoded))
	}
}

// address returns the filled address, if all its values stand where they may.
func (f *filling) address() (string, error) {
	text := f.out.String()
	if !f.started {
		return text, nil // text and variables only
	}
	path, query, _ := strings.Cut(text, "?")
	for _, at := range f.filled {
		switch {
		case at < 0:
			if rest := text[-at:]; rest != "" && rest[0] != '/' && rest[0] != '?' && rest[0] != '#' {
				return "", errorf(CodeAddress, "a list must stand between two slashes of the path")
			}
		case at <= len(path):
			start := strings.LastIndex(path[:at], "/") + 1
			segment, _, _ := strings.Cut(path[start:], "/")
			if decoded, err := url.PathUnescape(segment); err != nil || decoded == "" || decoded == "." || decoded == ".." {
				return "", errorf(CodeAddress, "a segment of the path would be empty, . or ..")
			}
		}
	}
	for field := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(field, "="); name == "" && field != "" {
			return "", errorf(CodeAddress, "a field of the query would have an empty name")
		}
	}
	if len(text) > maxAddress {
		return "", errorf(CodeAddress, "the address has more than %d characters", maxAddress)
	}
	return text, nil
}
