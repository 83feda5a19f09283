package weft

// This file stands alone: copy it, and rename the package as you like.

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrForged means that a callback is not what Weft sent, or that its signature cannot be verified.
var ErrForged = errors.New("the callback is not signed as it came")

// webhookTolerance is the largest difference between webhook-timestamp and the receiver's clock.
const webhookTolerance = 5 * time.Minute

// VerifyCallback returns nil if the callback was signed with this callbackSecret, otherwise
// ErrForged. body must be the raw bytes as received: JSON that was parsed and serialized again
// has another signature.
//
// Weft signs twice: X-Svc-Signature covers the body, and the Standard Webhooks signature covers
// ID, time and body. X-Svc-Signature is required, and each signature that is present must be
// valid. To prevent replay attacks, require webhook-timestamp and store webhook-id.
func VerifyCallback(secret string, header http.Header, body []byte, now time.Time) error {
	digest := "hmac-sha256-v1=" + hex.EncodeToString(mac([]byte(secret), body))
	if !hmac.Equal([]byte(header.Get("X-Svc-Signature")), []byte(digest)) {
		return ErrForged
	}
	signatures := header.Values("Webhook-Signature")
	if len(signatures) == 0 {
		return nil
	}
	id, timestamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseUint(timestamp, 10, 40)
	if age := now.Sub(time.Unix(int64(seconds), 0)); err != nil || age > webhookTolerance || -age > webhookTolerance {
		return ErrForged
	}
	message := append([]byte(id+"."+timestamp+"."), body...)
	want := []byte("v1," + base64.StdEncoding.EncodeToString(mac(webhookKey(secret), message)))
	right := false
	for given := range strings.FieldsSeq(signatures[0]) {
		right = hmac.Equal([]byte(given), want) || right
	}
	if !right {
		return ErrForged
	}
	return nil
}

func mac(key, message []byte) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write(message)
	return hash.Sum(nil)
}

// webhookKey returns the key for Standard Webhooks, which decodes secrets of the form whsec_BASE64.
func webhookKey(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(key) > 0 {
			return key
		}
	}
	return []byte(secret)
}
