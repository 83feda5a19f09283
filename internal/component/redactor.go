package component

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/redact"
)

// Redactor removes the secret values of one call from strings.
type Redactor struct {
	sought       redact.Sought
	values       map[string]bool // the secrets and their parts
	given, parts int             // number of secrets, and of their parts
}

// MaxSecrets is the largest number of secrets that a redactor searches for. With more secrets,
// it redacts every string completely.
const MaxSecrets = 1_000

// The other limits on the work for one string.
const (
	maxParts  = 10_000   // parts of secrets, such as words; a field of 64 KiB has fewer
	maxSought = 4 << 20  // bytes of secrets in all their encodings; beyond that, every string is redacted completely
	maxText   = 32 << 10 // bytes of a string that are searched; the rest is cut off
)

// Whole reports whether the redactor redacts every string completely.
func (r *Redactor) Whole() bool {
	return r != nil && (r.given > MaxSecrets || r.parts > maxParts || r.sought.Size() > maxSought)
}

// NewRedactor returns a redactor for these secrets. It ignores values shorter than 8 bytes.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{values: map[string]bool{}}
	for _, secret := range secrets {
		r.add(secret)
	}
	return r
}

// Redactor returns a redactor for the secrets in this input and config, and for the strings in
// extra.
func (e *Entry) Redactor(input, config json.RawMessage, extra ...string) *Redactor {
	r := NewRedactor(extra...)
	r.collect(input, e.SecretPaths.Input)
	r.collect(config, e.SecretPaths.Config)
	return r
}

// In reports whether a string or number contains a secret.
func (r *Redactor) In(value any) bool {
	switch value := value.(type) {
	case string:
		return r.Text(value) != value
	case json.Number:
		return r.Text(value.String()) != value.String()
	}
	return false
}

// JSON returns data without the secret values in its strings. Invalid JSON is redacted
// completely.
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

// Text returns text without the secret values, in any of their encodings. It also removes a
// prefix of a secret at the end of text or before three dots, because responses and quoted
// values may have been cut before.
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

// FitDetails reports whether error details can hold this JSON object. If not, they would cut it or be
// dropped.
func FitDetails(data json.RawMessage) bool {
	value, err := strictjson.Decode(data)
	if err != nil {
		return false
	}
	want, err := json.Marshal(value)
	return err == nil && bytes.Equal((*Redactor)(nil).details(data), want)
}

// wordsOfErrors lists the field names of Weft's errors, and the values of code, class, reason, sent and kind.
// These words are never redacted, even if a secret equals one of them: they reveal nothing about
// the secret, and redacting them would destroy the structure of the error.
var wordsOfErrors = func() map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.Fields(`class upstreamCode upstreamMessage retryAfter revert kind reason panicCode selector name signature arguments data
		from nonce replacedBy items failedItems first index componentId stageId code message errors pointer selected
		values dns refused reset unreachable timeout tls redirect blocked_address too_large status connection malformed rpc error panic custom none
		sent redirectsTo no unknown answered certificate_name certificate_expired certificate_issuer certificate_invalid client_certificate
		plain_http not_tls tls_version tls_name tls_alert tls_protocol handshake_closed unanswered cut_off not_http header content_length
		transfer_encoding chunk other content_encoding gzip location charset output_mapping storage json_rpc
		credential variable`) {
		words[word] = true
	}
	for _, code := range []string{CodeInvalidInput, CodeTimeout, CodeCanceled, CodeUpstream, CodeUnreadable, CodeAddressBlocked, CodeOutputTooLarge, CodeCredential, CodeInternal} {
		words[code] = true
	}
	return words
}()

// fieldsOfWords are the fields whose value is a word of wordsOfErrors, unless a component wrote another
// one there.
var fieldsOfWords = []string{"code", "class", "reason", "sent", "kind"}

func (r *Redactor) value(value any, shown func(string) string) any {
	switch value := value.(type) {
	case string:
		return shown(value)
	case json.Number:
		// A short number is a status, a code or an index, not a secret.
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
			shownName := name
			if !wordsOfErrors[name] {
				shownName = shown(name)
			}
			if word, ok := child.(string); ok && wordsOfErrors[word] && (slices.Contains(fieldsOfWords, name)) {
				out[shownName] = word
				continue
			}
			out[shownName] = r.value(child, shown)
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

// Texts returns the distinct strings and numbers in data that are long enough to be redacted.
// It returns at most MaxSecrets+1.
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

// add adds a secret, and the parts of the secret that an upstream may echo separately.
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

// seek adds a value to search for. If the value is longer than maxText, seek adds only its
// beginning, because no more of the value can appear in a string.
func (r *Redactor) seek(value string) {
	if len(value) >= minSecret && !r.values[value] && !r.Whole() {
		r.values[value] = true
		r.sought.AddWhole(value, maxText+utf8.UTFMax)
	}
}
