package component

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/redact"
)

// Redacted replaces secrets.
const Redacted = "[redacted]"

const minSecret = 8 // shorter values occur too often by chance

// SecretPaths are the paths of the secret values of a module: JSON pointers in which `*` matches
// every field or item, such as "/headers/*".
type SecretPaths struct {
	Input, Config, Output []string
}

// AddressPaths returns the paths of the fields that determine the receiver of a call's data, in the
// form of SecretPaths. These fields are URLs and the recipients of encrypted data.
func (e *Entry) AddressPaths() (input, config []string) { return e.input.addresses, e.config.addresses }

// URLPaths returns the paths of the fields that are URLs, in the form of SecretPaths.
func (e *Entry) URLPaths() (input, config []string) { return e.input.urls, e.config.urls }

// userInfo returns a fault for each address with a user name or a password, which egress would
// reject when the component runs.
func (e *Entry) userInfo(input, config json.RawMessage) (details []fault.Detail) {
	inputs, configs := e.AddressPaths()
	for _, part := range []struct {
		pointer string
		data    json.RawMessage
		paths   []string
	}{{"/input", input, inputs}, {"/config", config, configs}} {
		if len(part.paths) == 0 || !bytes.Contains(part.data, []byte("@")) && !bytes.Contains(part.data, []byte(`\u`)) {
			continue
		}
		value, err := strictjson.Decode(part.data)
		if err != nil {
			continue // reported by the check of the schema
		}
		for _, path := range part.paths {
			eachSecret(value, "", splitPath(path), func(_, address string) {
				_, rest, isURL := strings.Cut(address, "://")
				authority, _, _ := strings.Cut(rest, "/")
				authority, _, _ = strings.Cut(authority, "?")
				authority, _, _ = strings.Cut(authority, "#")
				if isURL && strings.Contains(authority, "@") {
					details = append(details, fault.NewDetail(part.pointer+path, "must not contain a user name or a password: remove them, and send them in the header Authorization"))
				}
			})
		}
	}
	return details
}

// Open reports whether the value with this name in a secret field is not secret, such as the Accept
// header.
func (e *Entry) Open(name string) bool {
	opener, opens := e.module.(opener)
	return opens && opener.Open(name)
}

// isSecret reports whether one of the paths is the path of the tokens or a prefix of it.
func isSecret(paths []string, tokens []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		pattern := splitPath(path)
		if len(pattern) > len(tokens) {
			return false
		}
		for i, want := range pattern {
			if want != "*" && fault.UnescapeToken(want) != tokens[i] {
				return false
			}
		}
		return true
	})
}

func splitPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// RedactInput returns the input with every secret value replaced. Data that isn't JSON is replaced
// completely.
func (e *Entry) RedactInput(data json.RawMessage) json.RawMessage {
	return Redact(data, e.SecretPaths.Input)
}

// RedactConfig does the same for the config.
func (e *Entry) RedactConfig(data json.RawMessage) json.RawMessage {
	return Redact(data, e.SecretPaths.Config)
}

// Redact replaces the values at paths in the form of SecretPaths. Data that isn't JSON is replaced
// completely.
func Redact(data json.RawMessage, paths []string) json.RawMessage {
	if len(paths) == 0 || len(data) == 0 {
		return data
	}
	value, err := strictjson.Decode(data)
	if err != nil {
		return json.RawMessage(`"` + Redacted + `"`)
	}
	for _, path := range paths {
		value = replaceAt(value, splitPath(path))
	}
	out, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage(`"` + Redacted + `"`)
	}
	return out
}

func replaceAt(value any, pattern []string) any {
	if len(pattern) == 0 {
		return Redacted
	}
	eachChild(value, pattern[0], func(child any, set func(any)) { set(replaceAt(child, pattern[1:])) })
	return value
}

// eachChild visits the fields or items that match a token of a path.
func eachChild(value any, token string, visit func(child any, set func(any))) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			if token == "*" || fault.UnescapeToken(token) == name {
				visit(child, func(v any) { value[name] = v })
			}
		}
	case []any:
		for i, child := range value {
			if token == "*" {
				visit(child, func(v any) { value[i] = v })
			}
		}
	}
}

// eachSecret visits the strings and numbers at and below a path, each with the name of its
// innermost field.
func eachSecret(value any, name string, pattern []string, visit func(name, secret string)) {
	switch value := value.(type) {
	case string:
		if len(pattern) == 0 {
			visit(name, value)
		}
	case json.Number:
		if len(pattern) == 0 {
			visit(name, value.String())
		}
	case []any:
		for _, item := range value {
			if len(pattern) == 0 || pattern[0] == "*" {
				eachSecret(item, name, pattern[min(1, len(pattern)):], visit)
			}
		}
	case map[string]any:
		for name, member := range value {
			if len(pattern) == 0 || pattern[0] == "*" || fault.UnescapeToken(pattern[0]) == name {
				eachSecret(member, name, pattern[min(1, len(pattern)):], visit)
			}
		}
	}
}

// eachPart visits the parts of a secret that may occur alone: words ("Bearer <token>"),
// Base64-decoded credentials ("Basic <user:password>"), values of cookies and similar lists, the
// digits after 0x, and the credentials, path segments and query values of a URL (node URLs often
// contain API keys there). sure is true for parts that are certainly secret; others can be common
// words.
func eachPart(secret string, visit func(part string, sure bool)) {
	words := strings.Fields(secret)
	for i, word := range words {
		if len(words) > 1 {
			visit(word, i > 0)
		}
		for _, part := range strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(`;,="`, r) }) {
			if part != word && distinctive(part) {
				visit(part, false)
			}
		}
	}
	if len(words) == 2 && strings.EqualFold(words[0], "Basic") {
		pair, _ := base64.StdEncoding.DecodeString(words[1])
		visit(string(pair), true)
		user, password, _ := strings.Cut(string(pair), ":")
		visit(password, true)
		visit(user, false)
	}
	if digits, ok := strings.CutPrefix(secret, "0x"); ok {
		visit(digits, true)
	}
	u, err := url.Parse(secret)
	if err != nil || u.Host == "" {
		return
	}
	visit(u.RequestURI(), false)
	for segment := range strings.SplitSeq(u.Path, "/") {
		visit(segment, false)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			visit(value, true)
		}
	}
	password, _ := u.User.Password()
	visit(password, true)
	visit(u.User.Username(), false)
}

// longWord is the minimum length at which a part of a secret counts as secret even if it could be a
// word.
const longWord = 24

// distinctive reports whether a part of a secret is unlikely to be a common word: it is long, or
// has both letters and digits.
func distinctive(part string) bool {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	return len(part) >= longWord || len(part) >= minSecret && strings.ContainsFunc(part, isDigit) && strings.ContainsFunc(part, unicode.IsLetter)
}

// SecretResult reports whether the result of a call is secret. A result that contains a secret value
// is secret, regardless of where the value came from.
func (e *Entry) SecretResult(call Call, result json.RawMessage) bool {
	return len(e.SecretPaths.Output) > 0 || e.Shows(call, result)
}

// Shows reports whether an output contains a secret of the call, which is one of Secrets, or a
// value of a secret field that isn't open by name. It ignores short secrets and parts that can
// be common words. If there are too many secrets to search for, it returns true.
func (e *Entry) Shows(call Call, given json.RawMessage) bool {
	switch {
	case len(call.Secrets) > MaxSecrets:
		return true
	case len(call.Secrets) == 0 && len(e.SecretPaths.Input) == 0 && len(e.SecretPaths.Config) == 0:
		return false
	}
	var sought redact.Sought
	left := MaxSecrets
	seek := func(text string) {
		if len(text) < minSecret {
			return
		}
		if left--; left >= 0 {
			sought.Add(text)
		}
	}
	add := func(secret string) {
		seek(secret)
		eachPart(secret, func(part string, sure bool) {
			if sure || distinctive(part) {
				seek(part)
			}
		})
	}
	for _, secret := range call.Secrets {
		add(secret)
	}
	for _, field := range []struct {
		data  json.RawMessage
		paths []string
	}{{call.Input, e.SecretPaths.Input}, {call.Config, e.SecretPaths.Config}} {
		if len(field.paths) == 0 || len(field.data) == 0 {
			continue
		}
		value, err := strictjson.Decode(field.data)
		if err != nil {
			return true // the secrets are unknown
		}
		for _, path := range field.paths {
			eachSecret(value, "", splitPath(path), func(name, secret string) {
				if !e.Open(name) {
					add(secret)
				}
			})
		}
	}
	return left < 0 || sought.In(given)
}
