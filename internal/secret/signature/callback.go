package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// CallbackAlgorithm is the name of the contract's callback signature, as in the record's
// signatureAlgorithm and the header's prefix.
const CallbackAlgorithm = "hmac-sha256-v1"

// CallbackV1 returns the value of X-Svc-Signature: "hmac-sha256-v1=" and the lower-case hex
// HMAC-SHA256 of body. The key is the UTF-8 bytes of secret.
func CallbackV1(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return CallbackAlgorithm + "=" + hex.EncodeToString(mac.Sum(nil))
}

// StandardWebhook returns the value of webhook-signature for one delivery attempt: "v1," and the
// base64 HMAC-SHA256 of ID.TIMESTAMP.BODY. If the secret has the form whsec_BASE64, which Standard
// Webhooks defines, the key is the decoded bytes. Otherwise the key is the secret's UTF-8 bytes.
func StandardWebhook(secret, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, WebhookKey(secret))
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// ErrUnsigned means that a delivery has no signature of the requested kind.
var ErrUnsigned = errors.New("the signature is missing")

// ErrMismatch means that a signature has the right form, but doesn't match the body and the
// secret. It is impossible to know which of the two is wrong.
var ErrMismatch = errors.New("it was made with another secret, or over other bytes")

// ErrExpired and ErrInFuture mean that the timestamp of a delivery is further than WebhookTolerance
// from the receiver's clock.
var (
	ErrExpired  = errors.New("webhook-timestamp is too old")
	ErrInFuture = errors.New("webhook-timestamp is ahead of the clock")
)

// CheckCallbackV1 checks values, which are all values of X-Svc-Signature in a delivery, as contract
// 5.3 requires of a receiver. It returns nil, ErrUnsigned, ErrMismatch, or an error about the form.
// The digests are compared in constant time.
func CheckCallbackV1(secret string, values []string, body []byte) error {
	const prefix = CallbackAlgorithm + "="
	switch len(values) {
	case 0:
		return ErrUnsigned
	case 1:
	default:
		return fmt.Errorf("it occurs %d times", len(values))
	}
	digest, ok := strings.CutPrefix(values[0], prefix)
	switch {
	case !ok:
		return errors.New("it does not start with " + prefix)
	case len(digest) != hex.EncodedLen(sha256.Size) || !within(digest, lowerHex):
		return errors.New(prefix + " is not followed by 64 lower-case hexadecimal digits")
	case !hmac.Equal([]byte(values[0]), []byte(CallbackV1(secret, body))):
		return ErrMismatch
	}
	return nil
}

func lowerHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// WebhookTolerance is how far the timestamp of a Standard Webhooks delivery may differ from the
// receiver's clock.
const WebhookTolerance = 5 * time.Minute

// Webhook holds the three headers of Standard Webhooks in a delivery, with all their values.
type Webhook struct {
	ID        []string // webhook-id
	Timestamp []string // webhook-timestamp
	Signature []string // webhook-signature
}

// Check checks a delivery with this body at now. It returns nil if one of the delivery's signatures
// is valid and was made within WebhookTolerance. Otherwise it returns ErrUnsigned (all three headers
// are missing), ErrMismatch, ErrExpired, ErrInFuture, or an error about one of the headers.
func (h Webhook) Check(secret string, body []byte, now time.Time) error {
	return h.CheckAny([]string{secret}, body, now, WebhookTolerance)
}

// CheckAny is Check with a tolerance and several secrets, of which one suffices. The timestamp is
// checked last, so that only the sender learns what CheckAny says about it.
func (h Webhook) CheckAny(secrets []string, body []byte, now time.Time, tolerance time.Duration) error {
	if len(h.ID)+len(h.Timestamp)+len(h.Signature) == 0 {
		return ErrUnsigned
	}
	if len(h.ID) != 1 || h.ID[0] == "" || len(h.Timestamp) != 1 || len(h.Signature) != 1 {
		return errors.New("webhook-id, webhook-timestamp and webhook-signature must each occur once")
	}
	seconds, err := strconv.ParseUint(h.Timestamp[0], 10, 40)
	if err != nil || strconv.FormatUint(seconds, 10) != h.Timestamp[0] {
		return errors.New("webhook-timestamp is not a whole number of seconds")
	}
	given := strings.Fields(h.Signature[0])
	if len(given) > MaxSignatures {
		return fmt.Errorf("webhook-signature has more than %d signatures", MaxSignatures)
	}
	at, right := time.Unix(int64(seconds), 0), false
	for _, secret := range secrets {
		want := []byte(StandardWebhook(secret, h.ID[0], at, body))
		for _, one := range given {
			right = hmac.Equal([]byte(one), want) || right
		}
	}
	if !right {
		return ErrMismatch
	}
	return checkAge(now.Sub(at), tolerance)
}

// WebhookKey returns the HMAC key of a secret. A secret that CheckSecret rejects may have been
// stored before the check existed; for such a secret, WebhookKey returns the UTF-8 bytes.
func WebhookKey(secret string) []byte {
	if key, err := decodeSecret(secret); err == nil && key != nil {
		return key
	}
	return []byte(secret)
}

// CheckSecret checks the form of a secret. It returns an error for a secret that starts with whsec_
// without being followed by base64, because implementations of Standard Webhooks disagree on its key
// or can't read it. The error doesn't contain the secret.
func CheckSecret(secret string) error {
	_, err := decodeSecret(secret)
	return err
}

// decodeSecret returns the decoded bytes of a secret of the form whsec_BASE64, and nil for any other
// secret.
func decodeSecret(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 || strings.ContainsAny(encoded, "\r\n") {
		return nil, errors.New("starts with whsec_, so it must continue with standard base64 with padding, as Standard Webhooks defines it")
	}
	return key, nil
}
