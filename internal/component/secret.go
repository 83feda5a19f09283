package component

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

const minSecret = 8 // shorter values are too common to be searched for in texts

// SecretPaths are the places of the secret values of a module: JSON pointers
// in which `*` stands for every member or item, such as "/headers/*".
type SecretPaths struct {
	Input, Config, Output []string
}

// secretPaths finds the values that a schema marks with `x-secret: true`.
// A mark in a place that this walk does not understand is an error: it would
// silently protect nothing.
func secretPaths(schema json.RawMessage) ([]string, error) {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	found := map[string]bool{}
	reached := walkSecrets(root, "", found)
	if marks := countMarks(root); marks != reached {
		return nil, fmt.Errorf("%d of %d x-secret marks stand where they have no effect", marks-reached, marks)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func walkSecrets(node any, path string, found map[string]bool) (reached int) {
	schema, ok := node.(map[string]any)
	if !ok {
		return 0
	}
	if schema["x-secret"] == true {
		found[path] = true
		reached++
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, property := range properties {
			reached += walkSecrets(property, path+"/"+escapeToken(name), found)
		}
	}
	for _, keyword := range []string{"additionalProperties", "items"} {
		reached += walkSecrets(schema[keyword], path+"/*", found)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := schema[keyword].([]any)
		for _, branch := range branches {
			reached += walkSecrets(branch, path, found)
		}
	}
	return reached
}

func countMarks(node any) (marks int) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if key == "x-secret" && value == true {
				marks++
			}
			marks += countMarks(value)
		}
	case []any:
		for _, value := range node {
			marks += countMarks(value)
		}
	}
	return marks
}

func escapeToken(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

func unescapeToken(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

// isSecret reports whether the value at the tokens lies at or under one of the
// paths.
func isSecret(paths []string, tokens []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		pattern := splitPath(path)
		if len(pattern) > len(tokens) {
			return false
		}
		for i, want := range pattern {
			if want != "*" && unescapeToken(want) != tokens[i] {
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

// RedactInput returns the input with every secret value replaced. Data that is
// not JSON is replaced whole.
func (e *Entry) RedactInput(data json.RawMessage) json.RawMessage {
	return redactJSON(data, e.SecretPaths.Input)
}

// RedactConfig does the same for the config.
func (e *Entry) RedactConfig(data json.RawMessage) json.RawMessage {
	return redactJSON(data, e.SecretPaths.Config)
}

// RedactOutput does the same for the output, for logs and traces only: the
// record's output is never altered.
func (e *Entry) RedactOutput(data json.RawMessage) json.RawMessage {
	return redactJSON(data, e.SecretPaths.Output)
}

func redactJSON(data json.RawMessage, paths []string) json.RawMessage {
	if len(paths) == 0 || len(data) == 0 {
		return data
	}
	value, err := decode(data)
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

// eachChild visits the member or the items that one token of a path names.
func eachChild(value any, token string, visit func(child any, set func(any))) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			if token == "*" || unescapeToken(token) == name {
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

func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// Redactor removes the secret values of one call from texts.
type Redactor struct {
	values   map[string]bool
	replacer *strings.Replacer
}

// Redactor makes a redactor for the secrets in this input and config. Values
// shorter than 8 characters are left alone.
func (e *Entry) Redactor(input, config json.RawMessage) *Redactor {
	r := &Redactor{values: map[string]bool{}}
	r.collect(input, e.SecretPaths.Input)
	r.collect(config, e.SecretPaths.Config)
	if len(r.values) == 0 {
		return r
	}
	// The longest first, or a part would be cut out of the whole and the rest left.
	values := slices.SortedFunc(maps.Keys(r.values), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(values))
	for _, value := range values {
		pairs = append(pairs, value, Redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// Text returns the text without the secret values, whether they stand in it
// plain, as in JSON, as in HTML or as in a URL. Texts of outside are cut before
// they come here: the beginning of a secret at the end of one goes too.
func (r *Redactor) Text(text string) string {
	if r.replacer == nil {
		return text
	}
	text = r.replacer.Replace(text)
	if begun := r.begunAtTheEnd(text); begun > 0 {
		text = text[:len(text)-begun] + Redacted
	}
	return text
}

// begunAtTheEnd is how many bytes at the end of the text are the beginning of a
// secret, 0 where fewer than minSecret are.
func (r *Redactor) begunAtTheEnd(text string) (longest int) {
	for value := range r.values {
		for n := min(len(value)-1, len(text)); n >= max(minSecret, longest+1); n-- {
			if strings.HasSuffix(text, value[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

func (r *Redactor) details(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return nil
	}
	value, err := decode(data)
	if err != nil {
		return nil
	}
	out, err := json.Marshal(r.value(value))
	if err != nil || len(out) > maxDetails || storable(out) != nil {
		return nil
	}
	return out
}

func (r *Redactor) value(value any) any {
	switch value := value.(type) {
	case string:
		return Cut(r.Text(value), maxMessage)
	case json.Number:
		if r.values[value.String()] {
			return Redacted
		}
	case []any:
		for i := range value {
			value[i] = r.value(value[i])
		}
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, child := range value {
			out[Cut(r.Text(name), maxMessage)] = r.value(child)
		}
		return out
	}
	return value
}

func (r *Redactor) collect(data json.RawMessage, paths []string) {
	if len(paths) == 0 || len(data) == 0 {
		return
	}
	value, err := decode(data)
	if err != nil {
		return
	}
	for _, path := range paths {
		r.collectAt(value, splitPath(path))
	}
}

func (r *Redactor) collectAt(value any, pattern []string) {
	if len(pattern) > 0 {
		eachChild(value, pattern[0], func(child any, _ func(any)) { r.collectAt(child, pattern[1:]) })
		return
	}
	switch value := value.(type) {
	case string:
		r.add(value)
	case json.Number:
		r.add(value.String())
	default:
		eachChild(value, "*", func(child any, _ func(any)) { r.collectAt(child, nil) })
	}
}

// add takes a secret and the parts of it that an upstream may echo alone: the
// words ("Bearer <token>") and, of a URL, its credentials, path segments and
// query values (node addresses carry their key there).
func (r *Redactor) add(secret string) {
	r.forms(secret)
	words := strings.Fields(secret)
	for _, word := range words {
		r.forms(word)
	}
	if len(words) == 2 && strings.EqualFold(words[0], "Basic") {
		pair, _ := base64.StdEncoding.DecodeString(words[1])
		r.forms(string(pair))
		_, password, _ := strings.Cut(string(pair), ":")
		r.forms(password)
	}
	u, err := url.Parse(secret)
	if err != nil || u.Host == "" {
		return
	}
	r.forms(u.RequestURI())
	for segment := range strings.SplitSeq(u.Path, "/") {
		r.forms(segment)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			r.forms(value)
		}
	}
	if password, ok := u.User.Password(); ok {
		r.forms(password)
	}
	r.forms(u.User.Username())
}

func (r *Redactor) forms(secret string) {
	if len([]rune(secret)) < minSecret {
		return
	}
	quoted, _ := json.Marshal(secret)
	inJSON, inGo := string(quoted[1:len(quoted)-1]), strings.TrimSuffix(fmt.Sprintf("%q", secret)[1:], `"`)
	for _, form := range []string{
		secret, inJSON, inGo, url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret),
		// As some write JSON.
		strings.ReplaceAll(inJSON, "/", `\/`), strings.ReplaceAll(inGo, "/", `\/`),
	} {
		r.values[form] = true
	}
}
