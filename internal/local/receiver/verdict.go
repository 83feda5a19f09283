package receiver

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/secret/signature"
)

// Verdict is what a delivery's signature is worth.
type Verdict string

// The verdicts.
const (
	Good      Verdict = "good"
	Bad       Verdict = "bad"
	Absent    Verdict = "absent"    // there is none
	Unchecked Verdict = "unchecked" // there is one, and no secret to check it with
)

// judge checks what Weft signs a callback with: X-Svc-Signature (contract 5.3), and
// the headers of Standard Webhooks where they are there (decisions 5.4). A verdict
// that is not Good comes with the reason.
func judge(secret *string, header http.Header, body []byte, now time.Time) (Verdict, string) {
	values := header.Values("X-Svc-Signature")
	switch {
	case len(values) == 0 && secret == nil:
		return Absent, ""
	case len(values) == 0:
		return Absent, "there is no X-Svc-Signature; the execution was submitted without a callbackSecret"
	case secret == nil:
		return Unchecked, ""
	}
	err := signature.CheckCallbackV1(*secret, values, body)
	if errors.Is(err, signature.ErrMismatch) {
		return Bad, "X-Svc-Signature: " + err.Error() + nearly(*secret, values, body)
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

// nearly names the slip when another spelling of the secret would do.
func nearly(secret string, values []string, body []byte) string {
	good := func(other string) bool {
		return other != secret && signature.CheckCallbackV1(other, values, body) == nil
	}
	encoded, _ := strings.CutPrefix(secret, "whsec_")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case good(secret + "\n"):
		return " (it is right for this secret with a line's end behind it)"
	case good(strings.TrimSpace(secret)):
		return " (it is right for this secret without the blanks around it)"
	case err == nil && good(string(decoded)):
		return " (it is right for the bytes that this secret is the base64 of; X-Svc-Signature takes the text)"
	}
	return ""
}
