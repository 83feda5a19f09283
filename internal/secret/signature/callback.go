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

// CallbackAlgorithm is the name of the contract's callback signature, as the
// record's signatureAlgorithm and the header's prefix spell it.
const CallbackAlgorithm = "hmac-sha256-v1"

// CallbackV1 is the value of X-Svc-Signature: "hmac-sha256-v1=" and the
// lower-case hex HMAC-SHA256 of body under the UTF-8 bytes of secret.
func CallbackV1(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return CallbackAlgorithm + "=" + hex.EncodeToString(mac.Sum(nil))
}

// StandardWebhook is the value of webhook-signature for one delivery attempt:
// "v1," and the base64 HMAC-SHA256 of ID.TIMESTAMP.BODY. A secret written
// whsec_BASE64, as that standard hands them out, counts as the bytes it encodes;
// any other secret as its UTF-8 bytes.
func StandardWebhook(secret, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, webhookKey(secret))
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// ErrUnsigned says that a delivery carries no signature of the kind asked for.
var ErrUnsigned = errors.New("there is no signature")

// ErrMismatch says that a signature has the right form and is not that of these
// bytes under this secret. Nobody can tell which of the two is another.
var ErrMismatch = errors.New("it was made with another secret, or over other bytes")

// CheckCallbackV1 judges values, all that a delivery has of X-Svc-Signature, as a
// receiver does by contract 5.3: nil, ErrUnsigned, ErrMismatch, or what is wrong
// with the form. The digests are compared in constant time.
func CheckCallbackV1(secret string, values []string, body []byte) error {
	const prefix = CallbackAlgorithm + "="
	switch len(values) {
	case 0:
		return ErrUnsigned
	case 1:
	default:
		return fmt.Errorf("it is there %d times", len(values))
	}
	digest, ok := strings.CutPrefix(values[0], prefix)
	switch {
	case !ok:
		return errors.New("it does not begin with " + prefix)
	case len(digest) != hex.EncodedLen(sha256.Size) || !within(digest, lowerHex):
		return errors.New("what follows " + prefix + " is not 64 lower-case hexadecimal digits")
	case !hmac.Equal([]byte(values[0]), []byte(CallbackV1(secret, body))):
		return ErrMismatch
	}
	return nil
}

func lowerHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// WebhookTolerance is how far from the receiver's clock a delivery by Standard
// Webhooks may have been signed.
const WebhookTolerance = 5 * time.Minute

// Webhook is what a delivery has of the three headers of Standard Webhooks, each
// with all of its values.
type Webhook struct {
	ID        []string // webhook-id
	Timestamp []string // webhook-timestamp
	Signature []string // webhook-signature
}

// Check judges a delivery with this body at now: nil when one of its signatures is
// right and made within WebhookTolerance, otherwise ErrUnsigned (none of the three
// headers is there), ErrMismatch, or what is wrong with one of them.
func (h Webhook) Check(secret string, body []byte, now time.Time) error {
	if len(h.ID)+len(h.Timestamp)+len(h.Signature) == 0 {
		return ErrUnsigned
	}
	if len(h.ID) != 1 || h.ID[0] == "" || len(h.Timestamp) != 1 || len(h.Signature) != 1 {
		return errors.New("webhook-id, webhook-timestamp and webhook-signature must each be there once")
	}
	seconds, err := strconv.ParseUint(h.Timestamp[0], 10, 40)
	if err != nil || strconv.FormatUint(seconds, 10) != h.Timestamp[0] {
		return errors.New("webhook-timestamp is not a whole number of seconds")
	}
	at := time.Unix(int64(seconds), 0)
	switch age := now.Sub(at); {
	case age > WebhookTolerance:
		return fmt.Errorf("webhook-timestamp is %v ago, more than %v", age.Truncate(time.Second), WebhookTolerance)
	case -age > WebhookTolerance:
		return fmt.Errorf("webhook-timestamp is %v ahead, more than %v", -age.Truncate(time.Second), WebhookTolerance)
	}
	want := []byte(StandardWebhook(secret, h.ID[0], at, body))
	right := false
	for given := range strings.FieldsSeq(h.Signature[0]) {
		right = hmac.Equal([]byte(given), want) || right
	}
	if !right {
		return ErrMismatch
	}
	return nil
}

// webhookKey returns the HMAC key of a secret. A secret that CheckSecret rejects, stored before
// it was checked, counts as its UTF-8 bytes.
func webhookKey(secret string) []byte {
	if key, err := decodeSecret(secret); err == nil && key != nil {
		return key
	}
	return []byte(secret)
}

// CheckSecret checks the form of a secret. It returns an error if the secret starts with whsec_
// but no base64 follows: implementations of Standard Webhooks disagree on the key of such a
// secret, or cannot read it. The error does not show the secret.
func CheckSecret(secret string) error {
	_, err := decodeSecret(secret)
	return err
}

// decodeSecret returns the bytes that a secret written whsec_BASE64 encodes, nil for any other
// secret.
func decodeSecret(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 || strings.ContainsAny(encoded, "\r\n") {
		return nil, errors.New("starts with whsec_, so standard base64 with padding must follow, as Standard Webhooks defines it")
	}
	return key, nil
}
