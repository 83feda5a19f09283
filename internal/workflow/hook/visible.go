package hook

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// sensitiveParts are parts of header names whose values may be secrets or signatures.
var sensitiveParts = []string{"signature", "authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "hmac"}

// neverShown are the parts of header names that a hook can't list: credentials of the sender and
// signatures.
var neverShown = []string{"signature", "authorization", "cookie", "hmac"}

func hasPart(name string, parts []string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(lower, part) })
}

// checkHeaders returns INVALID_INPUT if a hook lists a header that it must not show.
func checkHeaders(listed []string, v api.Verification) error {
	for i, name := range listed {
		if hasPart(name, neverShown) || strings.EqualFold(name, v.Header) {
			return fault.InvalidAt(child("/headers", strconv.Itoa(i)), "must not be a header with credentials or a signature")
		}
	}
	return nil
}

func (r reading) visibleHeaders(header http.Header) map[string]string {
	headers := map[string]string{}
	for name, values := range header {
		listed := slices.ContainsFunc(r.headers, func(one string) bool { return strings.EqualFold(one, name) })
		hidden := strings.EqualFold(name, r.verification.Header) || hasPart(name, sensitiveParts) && !listed
		if value := strings.Join(values, ", "); !hidden && value == storableText(value) && !r.isSecret(value) {
			headers[strings.ToLower(name)] = value
		}
	}
	return headers
}

// visibleQuery returns the query parameters, without those that Weft reads and without secrets of
// the hook, and the pointers to what was replaced because it can't be stored.
func (r reading) visibleQuery(query url.Values) (map[string]any, []string) {
	shown, replaced := map[string]any{}, []string(nil)
	values := map[string][]string{}
	for name, all := range query {
		if strings.HasPrefix(name, "hub.") || name == validationToken && answers(r.verification, validationToken) {
			continue
		}
		plain := storableText(name)
		for _, value := range all {
			if r.isSecret(value) {
				continue
			}
			values[plain] = append(values[plain], storableText(value))
			if at := child("/query", plain); (plain != name || storableText(value) != value) && len(replaced) < maxReplaced && !slices.Contains(replaced, at) {
				replaced = append(replaced, at)
			}
		}
	}
	for name, all := range values {
		if shown[name] = all; len(all) == 1 {
			shown[name] = all[0]
		}
	}
	slices.Sort(replaced)
	return shown, replaced
}

func (r reading) isSecret(value string) bool {
	return slices.ContainsFunc(r.secrets, func(secret string) bool { return sameToken([]byte(value), []byte(secret)) })
}
