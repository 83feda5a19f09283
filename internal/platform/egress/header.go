package egress

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
)

const (
	maxHeaders     = 20
	maxHeaderName  = 64
	maxHeaderValue = 4096
	maxHeaderSize  = 8 << 10
)

// Header names that the service or HTTP itself must control (decisions 5.6).
var (
	reservedHeaders = []string{
		"host", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer",
		"expect", "cookie", "accept-encoding", "user-agent",
	}
	reservedPrefixes = []string{"content-", "proxy-", "x-svc-", "webhook-", "x-forwarded-"}
)

// CheckCallbackHeaders checks the headers that a caller adds to a callback. It returns nil, or a
// *fault.Error with all faults, each at /callbackHeaders/NAME. Errors never contain values.
func CheckCallbackHeaders(headers map[string]string) error {
	all := &fault.Error{Code: fault.InvalidInput, Message: "callbackHeaders: some headers are not allowed"}
	add := func(pointer, reason string) {
		all.Details = append(all.Details, fault.NewDetail(pointer, reason))
	}
	if len(headers) > maxHeaders {
		add("/callbackHeaders", "must have at most 20 headers")
		headers = nil
	}
	size := 0
	seen := make(map[string]struct{}, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		size += len(name) + len(value)
		key := headerKey(name)
		reason := refuseHeader(name, key, value)
		if _, twice := seen[key]; twice && reason == "" {
			reason = "occurs twice in different spellings"
		}
		seen[key] = struct{}{}
		if reason != "" {
			add(headerPointer(name), reason)
		}
	}
	if size > maxHeaderSize {
		add("/callbackHeaders", "must be at most 8 KiB in total")
	}
	if len(all.Details) == 0 {
		return nil
	}
	return all
}

// headerKey returns the form in which header names are compared. Receivers behind CGI-like
// gateways can't distinguish `_` from `-`.
func headerKey(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

func refuseHeader(name, key, value string) string {
	switch {
	case name == "":
		return "the name must not be empty"
	case len(name) > maxHeaderName:
		return "the name must have at most 64 characters"
	case slices.Contains(reservedHeaders, key), slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }):
		return "the name is reserved"
	case strings.ContainsFunc(name, notNameRune):
		return "the name must consist of letters, digits and hyphens"
	case len(value) > maxHeaderValue:
		return "the value must have at most 4096 characters"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return "the value must be visible ASCII"
	case strings.Trim(value, " ") != value:
		return "the value must not start or end with a space"
	}
	return ""
}

func notNameRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
}

// headerPointer returns the JSON pointer (RFC 6901) of a header, truncated so that a huge name
// isn't returned in full.
func headerPointer(name string) string {
	if runes := []rune(name); len(runes) > maxHeaderName {
		name = string(runes[:maxHeaderName]) + "..."
	}
	name = strings.ToValidUTF8(name, "?")
	return "/callbackHeaders/" + fault.EscapeToken(name)
}

// RetryAfter returns the delay of a response's Retry-After header, in seconds or as an HTTP date
// relative to now. It returns 0 for a header that is missing, invalid or in the past, and the
// largest duration for a number that is too large.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds) * time.Second
}
