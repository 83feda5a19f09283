package component

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/redact"
)

// Redactor removes the secret values of one call from texts.
type Redactor struct {
	sought       redact.Sought
	values       map[string]bool // the secrets and their parts
	given, parts int             // secrets and parts of them, as far as they are counted
}

// MaxSecrets is how many secrets are looked for in a text. Where there are more, no text is
// shown at all.
const MaxSecrets = 1_000

// The other bounds of what is done for a text, whatever it and the secrets are.
const (
	maxParts  = 10_000   // words and the like that secrets consist of: a field of 64 KiB has fewer
	maxSought = 4 << 20  // bytes of secrets in all their forms; of more, no text is shown
	maxText   = 32 << 10 // bytes of a text that are gone through; the rest is not shown
)

// Whole reports whether the redactor shows no text at all.
func (r *Redactor) Whole() bool {
	return r != nil && (r.given > MaxSecrets || r.parts > maxParts || r.sought.Size() > maxSought)
}

// NewRedactor makes a redactor for these secrets. Values shorter than 8 bytes are left alone.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{values: map[string]bool{}}
	for _, secret := range secrets {
		r.add(secret)
	}
	return r
}

// Redactor makes a redactor for the secrets in this input and config, and for more.
func (e *Entry) Redactor(input, config json.RawMessage, more ...string) *Redactor {
	r := NewRedactor(more...)
	r.collect(input, e.SecretPaths.Input)
	r.collect(config, e.SecretPaths.Config)
	return r
}

// In reports whether some of a value would be removed, were it shown.
func (r *Redactor) In(value any) bool {
	switch value := value.(type) {
	case string:
		return r.Text(value) != value
	case json.Number:
		return r.Text(value.String()) != value.String()
	}
	return false
}

// JSON returns some JSON without the secret values in its texts. What is not JSON is
// replaced whole.
func (r *Redactor) JSON(data json.RawMessage) json.RawMessage {
	if r == nil || len(r.values) == 0 && !r.Whole() || len(data) == 0 {
		return data
	}
	value, err := strictjson.Decode(data)
	if err == nil {
		data, err = strictjson.Encode(r.value(value, r.Text))
	}
	if err != nil {
		return json.RawMessage(`"` + Redacted + `"`)
	}
	return data
}

// Text returns the text without the secret values, in whatever form they are repeated. It also
// removes the beginning of a secret at the end of the text, or before three dots: texts from
// outside and values that messages quote are cut before they come here.
func (r *Redactor) Text(text string) string {
	if r.Whole() && text != "" {
		return Redacted
	}
	if r == nil || len(r.values) == 0 {
		return text
	}
	return r.sought.Replace(wholeRunes(text, maxText), Redacted)
}

func (r *Redactor) details(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || len(data) > 4*maxText {
		return nil
	}
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil
	}
	out, err := json.Marshal(r.value(value, func(text string) string { return Cut(r.Text(text), MaxMessage) }))
	if err != nil || len(out) > maxDetails || strictjson.Check(out) != nil {
		return nil
	}
	return out
}

// wordsOfErrors are what errors of Weft are made of: names of members, and what may stand for a
// code or a class. They say nothing of a secret that is the same word, and hidden they would
// take the form of an error with them.
var wordsOfErrors = func() map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.Fields(`class upstreamCode upstreamMessage retryAfter revert kind reason panicCode selector name signature arguments data
		from nonce replacedBy items failedItems first index componentId stageId code message errors pointer
		values dns refused reset unreachable timeout tls redirect blocked_address too_large status connection malformed rpc error panic custom none`) {
		words[word] = true
	}
	for _, code := range []string{CodeInvalidInput, CodeTimeout, CodeCanceled, CodeUpstream, CodeAddressBlocked, CodeOutputTooLarge, CodeInternal} {
		words[code] = true
	}
	return words
}()

func (r *Redactor) value(value any, shown func(string) string) any {
	switch value := value.(type) {
	case string:
		return shown(value)
	case json.Number:
		// A short one is nobody's secret: a status, a code, an index.
		if len(value) >= minSecret && r.In(value) {
			return Redacted
		}
	case []any:
		for i := range value {
			value[i] = r.value(value[i], shown)
		}
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, child := range value {
			told := name
			if !wordsOfErrors[name] {
				told = shown(name)
			}
			if word, ok := child.(string); ok && wordsOfErrors[word] && (name == "code" || name == "class" || name == "kind") {
				out[told] = word
				continue
			}
			out[told] = r.value(child, shown)
		}
		return out
	}
	return value
}

func (r *Redactor) collect(data json.RawMessage, paths []string) {
	if len(paths) == 0 || len(data) == 0 {
		return
	}
	value, err := strictjson.Decode(data)
	if err != nil {
		return
	}
	for _, path := range paths {
		eachSecret(value, "", splitPath(path), func(_, secret string) { r.add(secret) })
	}
}

// Texts are the texts and numbers in some JSON, each once and none too short to be looked
// for: one more than MaxSecrets at most.
func Texts(data json.RawMessage) (texts []string) {
	value, err := strictjson.Decode(data)
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case string:
			if len(value) >= minSecret && len(texts) <= MaxSecrets && !seen[value] {
				seen[value], texts = true, append(texts, value)
			}
		case json.Number:
			walk(value.String())
		default:
			eachChild(value, "*", func(child any, _ func(any)) { walk(child) })
		}
	}
	walk(value)
	return texts
}

// add adds a secret and the parts of it that an upstream may echo alone.
func (r *Redactor) add(secret string) {
	r.given++
	r.seek(secret)
	eachPart(secret, func(part string, _ bool) {
		if len(part) >= minSecret && !r.values[part] {
			r.parts++
			r.seek(part)
		}
	})
}

// seek looks for a value in texts. Only the beginning of one that is longer than any text can
// stand in one.
func (r *Redactor) seek(value string) {
	if len(value) >= minSecret && !r.values[value] && !r.Whole() {
		r.values[value] = true
		r.sought.AddWhole(value, maxText+utf8.UTFMax)
	}
}
