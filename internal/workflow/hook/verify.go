package hook

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// Headers of the Standard Webhooks specification.
const (
	standardID        = "webhook-id"
	standardAt        = "webhook-timestamp"
	standardSignature = "webhook-signature"
)

// The reasons why the signature of a delivery is rejected. Only the hook shows them: the response to
// the sender is the same for all.
const (
	missingSignature   = "missing_signature"
	malformedSignature = "malformed_signature"
	invalidSignature   = "invalid_signature"
	timestampExpired   = "timestamp_expired"
	timestampInFuture  = "timestamp_in_future"
)

// verify returns "" if a delivery has a valid signature, and otherwise why it is rejected.
func verify(v api.Verification, known secrets, header http.Header, body []byte, now time.Time) (reason string) {
	tolerance := time.Duration(value(v.ToleranceSeconds, defaultTolerance)) * time.Second
	switch v.Scheme {
	case api.VerificationSchemeStandardWebhooks:
		headers := signature.Webhook{ID: standardValues(v, header, standardID), Timestamp: standardValues(v, header, standardAt), Signature: standardValues(v, header, standardSignature)}
		return reasonOf(headers.CheckAny(known.all(), body, now, tolerance))
	case api.VerificationSchemeToken:
		return verifyToken(v, known, header.Values(v.Header))
	}
	var keys [][]byte
	for _, secret := range known.all() {
		key, err := keyOf(v, secret)
		if err != nil {
			return invalidSignature
		}
		keys = append(keys, key)
	}
	return reasonOf(senderOf(v, tolerance).Check(keys, header.Values, body, now))
}

// senderOf returns how the sender of a hook with an HMAC signs.
func senderOf(v api.Verification, tolerance time.Duration) signature.Sender {
	return signature.Sender{
		Text: textOf(v), Header: v.Header, Element: value(v.Element, ""), Prefix: v.Prefix, Algorithm: string(v.Algorithm), Encoding: string(v.Encoding),
		TimestampHeader: value(v.TimestampHeader, ""), TimestampElement: value(v.TimestampElement, ""), IDHeader: value(v.IDHeader, ""), Tolerance: tolerance,
	}
}

// standardValues returns the values of a header of Standard Webhooks. With the preset, a delivery
// may use the older names, which start with svix.
func standardValues(v api.Verification, header http.Header, name string) []string {
	if v.Preset != nil && len(header.Values(standardID)) == 0 && len(header.Values(standardSignature)) == 0 {
		name = strings.Replace(name, "webhook", "svix", 1)
	}
	return header.Values(name)
}

// verifyToken checks the fixed secret in a header.
func verifyToken(v api.Verification, known secrets, values []string) string {
	if len(values) == 0 {
		return missingSignature
	}
	sent, ok := strings.CutPrefix(values[0], v.Prefix)
	if !ok || len(values) > 1 {
		return malformedSignature
	}
	right := false
	for _, secret := range known.all() {
		right = sameToken([]byte(sent), []byte(secret)) || right
	}
	if !right {
		return invalidSignature
	}
	return ""
}

// signedBytes returns the text that the signature of a verified delivery covers.
func signedBytes(v api.Verification, header http.Header, body []byte) []byte {
	if v.Scheme == api.VerificationSchemeStandardWebhooks {
		return []byte(strings.Join(append(standardValues(v, header, standardID), standardValues(v, header, standardAt)...), ".") + "." + string(body))
	}
	text, _, err := senderOf(v, 0).SignedText(header.Values, body)
	if err != nil {
		return body // a verified delivery has signed bytes
	}
	return text
}

// deliveryIDs returns the values of the header with the ID of a delivery.
func deliveryIDs(v api.Verification, header http.Header) []string {
	if v.Scheme == api.VerificationSchemeStandardWebhooks && *v.DeliveryHeader == standardID {
		return standardValues(v, header, standardID)
	}
	return header.Values(*v.DeliveryHeader)
}

// signsID reports whether the ID of a delivery can't be changed by someone who captured it: the
// signature covers it, or only someone who knows the secret can deliver.
func signsID(v api.Verification) bool {
	switch v.Scheme {
	case api.VerificationSchemeStandardWebhooks:
		return *v.DeliveryHeader == standardID
	case api.VerificationSchemeToken:
		return true
	}
	return v.IDHeader != nil && strings.EqualFold(*v.IDHeader, *v.DeliveryHeader)
}

// reasonOf returns the reason for an error of a check of package signature, and "" for nil.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, signature.ErrUnsigned):
		return missingSignature
	case errors.Is(err, signature.ErrMismatch):
		return invalidSignature
	case errors.Is(err, signature.ErrExpired):
		return timestampExpired
	case errors.Is(err, signature.ErrInFuture):
		return timestampInFuture
	}
	return malformedSignature
}
