package protocol

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// JSONObject checks that the body is a JSON object and returns it. For an empty body it returns
// {}. It returns UNSUPPORTED_MEDIA_TYPE if the Content-Type isn't JSON, and INVALID_INPUT if
// strictjson.CheckObject rejects the body. If untyped is true, the Content-Type may be missing.
func JSONObject(header http.Header, body []byte, untyped bool) ([]byte, error) {
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if err := Plain(header); err != nil {
		return nil, err
	}
	types := header.Values("Content-Type")
	if assumed := untyped && len(types) == 0; !assumed && (len(types) != 1 || !isJSON(types[0])) {
		return nil, fault.New(fault.UnsupportedMediaType, "Send the body as application/json in UTF-8.")
	}
	return body, strictjson.CheckObject(body)
}

// Plain returns UNSUPPORTED_MEDIA_TYPE if the body has a Content-Encoding other than identity.
func Plain(header http.Header) error {
	if encoding := header.Values("Content-Encoding"); len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return fault.New(fault.UnsupportedMediaType, "Send the body without a Content-Encoding.")
	}
	return nil
}

// Packed is like Plain, but also allows gzip.
func Packed(header http.Header) error {
	encoding := header.Values("Content-Encoding")
	if len(encoding) == 1 && (strings.EqualFold(encoding[0], "gzip") || strings.EqualFold(encoding[0], "x-gzip")) {
		return nil
	}
	if Plain(header) != nil {
		return fault.New(fault.UnsupportedMediaType, "Send the body with the Content-Encoding gzip, or without one.")
	}
	return nil
}

func isJSON(contentType string) bool {
	media, parameters, err := mime.ParseMediaType(contentType)
	charset, hasCharset := parameters["charset"]
	return err == nil && media == "application/json" && (!hasCharset || strings.EqualFold(charset, "utf-8"))
}

// Choose returns the offer that an Accept header prefers, the first one among equals, or "" if it
// allows no offer. The most specific matching range determines the weight of an offer (RFC 9110,
// 12.5.1). If the header is missing, all offers are allowed.
func Choose(header, offers []string) string {
	if strings.TrimSpace(strings.Join(header, "")) == "" {
		return offers[0]
	}
	chosen, best := "", 0.0
	for _, offer := range offers {
		if weight := weigh(header, offer); weight > best {
			chosen, best = offer, weight
		}
	}
	return chosen
}

// weigh returns the weight of a media type, or 0 if it isn't allowed.
func weigh(header []string, media string) float64 {
	kind, _, _ := strings.Cut(media, "/")
	best, weight := 0, 0.0
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, rest, _ := strings.Cut(entry, ";")
		specific := 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case media:
			specific = 3
		case kind + "/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		if specific > best {
			best, weight = specific, quality(rest)
		}
	}
	return weight
}

// quality returns the weight (q) in the parameters of a media range or coding. It returns 1
// without a weight, and 0 for a malformed one.
func quality(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(weight > 0) {
				return 0
			}
			return min(weight, 1)
		}
	}
	return 1
}

// PrefersStrict reports whether a Prefer header asks for handling=strict
// (RFC 7240).
func PrefersStrict(header []string) bool {
	for preference := range strings.SplitSeq(strings.Join(header, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if strings.EqualFold(strings.TrimSpace(name), "handling") {
			return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "strict")
		}
	}
	return false
}

// RequestID returns the caller's X-Request-Id if it is valid, otherwise a new ID.
func RequestID(header http.Header) string {
	if own := header.Values("X-Request-Id"); len(own) == 1 && validRequestID(own[0]) {
		return own[0]
	}
	return uuid.NewString()
}

func validRequestID(id string) bool {
	return len(id) >= 1 && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
	})
}
