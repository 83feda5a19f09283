package component

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/bits"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Redactor removes the secret values of one call from texts.
type Redactor struct {
	values   map[string]bool
	replacer *strings.Replacer
	heads    map[string][]string // the values by their first bytes, in order
	longest  int                 // of the values
	given    int                 // secrets, as far as they are counted
	parts    int                 // of secrets, likewise
	sought   int                 // bytes of the values
}

// MaxSecrets is how many secrets are looked for in a text. Where there are more, no text is
// shown at all.
const MaxSecrets = 1_000

// The other bounds of what is done for a text, whatever it and the secrets are.
const (
	maxParts    = 10_000   // words and the like that secrets consist of: a field of 64 KiB has fewer
	maxSought   = 4 << 20  // bytes of secrets in all their forms; of more, no text is shown
	maxText     = 32 << 10 // bytes of a text that are gone through; the rest is not shown
	maxCompared = 1 << 10  // bytes that are compared at cuts, for each of the text
)

// Whole reports whether the redactor shows no text at all.
func (r *Redactor) Whole() bool {
	return r != nil && (r.given > MaxSecrets || r.parts > maxParts || r.sought > maxSought)
}

// NewRedactor makes a redactor for these secrets. Values shorter than 8 characters are
// left alone.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{values: map[string]bool{}}
	for _, secret := range secrets {
		r.add(secret)
	}
	return r.ready()
}

// Redactor makes a redactor for the secrets in this input and config, and for more.
func (e *Entry) Redactor(input, config json.RawMessage, more ...string) *Redactor {
	r := &Redactor{values: map[string]bool{}}
	r.collect(input, e.SecretPaths.Input)
	r.collect(config, e.SecretPaths.Config)
	for _, secret := range more {
		r.add(secret)
	}
	return r.ready()
}

func (r *Redactor) ready() *Redactor {
	if len(r.values) == 0 || r.Whole() {
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
	r.longest, r.heads = len(values[0]), map[string][]string{}
	slices.Sort(values)
	for _, value := range values {
		r.heads[value[:minSecret]] = append(r.heads[value[:minSecret]], value)
	}
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
	if r == nil || r.replacer == nil && !r.Whole() || len(data) == 0 {
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

const (
	cutMark = "..." // where a message quotes a value that it cuts; a quotation mark may stand before it
	maxCuts = 32    // that are looked at in a text, from its end: messages have a few
)

// Text returns the text without the secret values, whether they stand in it
// plain, as in JSON, as in HTML or as in a URL. Texts of outside and values that
// messages quote are cut before they come here: the beginning of a secret at the
// end of one, or before a mark that something was cut, goes too.
func (r *Redactor) Text(text string) string {
	if r.Whole() && text != "" {
		return Redacted
	}
	if r == nil || r.replacer == nil {
		return text
	}
	text = r.replacer.Replace(wholeRunes(text, maxText))
	end, left := len(text), maxCompared*len(text)
	for cuts := 0; end >= 0 && cuts <= maxCuts; cuts++ {
		whole := text[:end]
		if end < len(text) {
			whole = strings.TrimSuffix(strings.TrimRight(whole, "."), `"`)
		}
		begun := r.begunAtTheEnd(whole, &left)
		if left < 0 {
			return Redacted
		}
		if begun > 0 {
			end = len(whole) - begun
			text = text[:end] + Redacted + text[len(whole):]
		}
		end = strings.LastIndex(text[:end], cutMark)
	}
	return text
}

// begunAtTheEnd is how many bytes at the end of the text are the beginning of a
// secret, 0 where fewer than minSecret are. What it compares it takes from left, and
// tells nothing when that is used up.
func (r *Redactor) begunAtTheEnd(text string, left *int) int {
	for at := max(0, len(text)-r.longest+1); at+minSecret <= len(text) && *left >= 0; at++ {
		alike := r.heads[text[at:at+minSecret]]
		if len(alike) == 0 {
			continue
		}
		begun := text[at:]
		i, complete := slices.BinarySearch(alike, begun)
		if complete {
			i++
		}
		// No comparison of the search went further than the neighbours are alike.
		same := 0
		for _, neighbour := range alike[max(0, i-1):min(i+1, len(alike))] {
			same = max(same, shared(neighbour, begun))
		}
		if *left -= same * (bits.Len(uint(len(alike))) + 2); *left < 0 {
			return 0
		}
		if i < len(alike) && strings.HasPrefix(alike[i], begun) {
			return len(begun)
		}
	}
	return 0
}

// shared is how many bytes two texts begin with alike.
func shared(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
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
		if text := value.String(); r.values[text] || r.Whole() && len(text) >= minSecret {
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

// add takes a secret and the parts of it that an upstream may echo alone.
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

// seek looks for a secret in the forms that others give it. Of a secret that is longer than
// any text only the beginning can stand in one.
func (r *Redactor) seek(secret string) {
	if r.Whole() || len([]rune(secret)) < minSecret {
		return
	}
	secret = secret[:min(len(secret), maxText+utf8.UTFMax)]
	quoted, _ := json.Marshal(secret)
	inJSON, inGo := string(quoted[1:len(quoted)-1]), strings.TrimSuffix(fmt.Sprintf("%q", secret)[1:], `"`)
	for _, form := range []string{
		secret, inJSON, inGo, url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret),
		strings.Trim(strconv.QuoteToASCII(secret), `"`), // as faults quote it
		// As some write JSON.
		strings.ReplaceAll(inJSON, "/", `\/`), strings.ReplaceAll(inGo, "/", `\/`),
	} {
		if form = form[:min(len(form), maxText+1)]; !r.values[form] {
			r.values[form] = true
			r.sought += len(form)
		}
	}
}
