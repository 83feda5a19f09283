package receiver

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/secret/signature"
)

// Verdict is the result of checking a delivery's signature.
type Verdict string

// The results.
const (
	Good      Verdict = "good"
	Bad       Verdict = "bad"
	Absent    Verdict = "absent"    // there is no signature
	Unchecked Verdict = "unchecked" // there is a signature, but no secret to check it with
)

// judge checks X-Svc-Signature (contract 5.3), and the headers of Standard Webhooks if present
// (decisions 5.4). It returns the reason for every verdict other than Good.
func judge(secret *string, header http.Header, body []byte, now time.Time) (Verdict, string) {
	values := header.Values("X-Svc-Signature")
	switch {
	case len(values) == 0 && secret == nil:
		return Absent, ""
	case len(values) == 0:
		return Absent, "X-Svc-Signature is missing: the execution was submitted without a callbackSecret"
	case secret == nil:
		return Unchecked, ""
	}
	err := signature.CheckCallbackV1(*secret, values, body)
	if errors.Is(err, signature.ErrMismatch) {
		return Bad, "X-Svc-Signature: " + err.Error() + explainMismatch(*secret, values, body)
	}
	if err != nil {
		return Bad, "X-Svc-Signature: " + err.Error()
	}
	standard := signature.Webhook{
		ID: header.Values("Webhook-Id"), Timestamp: header.Values("Webhook-Timestamp"), Signature: header.Values("Webhook-Signature"),
	}
	if err := standard.Check(*secret, body, now); err != nil && !errors.Is(err, signature.ErrUnsigned) {
		return Bad, "Standard Webhooks: " + err.Error()
	}
	return Good, ""
}

// explainMismatch explains the mistake if a variant of the secret matches.
func explainMismatch(secret string, values []string, body []byte) string {
	good := func(other string) bool {
		return other != secret && signature.CheckCallbackV1(other, values, body) == nil
	}
	encoded, _ := strings.CutPrefix(secret, "whsec_")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case good(secret + "\n"):
		return " (it matches this secret followed by a line break)"
	case good(strings.TrimSpace(secret)):
		return " (it matches this secret without the surrounding spaces)"
	case err == nil && good(string(decoded)):
		return " (it matches the bytes that this secret encodes in base64; X-Svc-Signature uses the string itself)"
	}
	return ""
}
