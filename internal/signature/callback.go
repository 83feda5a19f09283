package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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

func webhookKey(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(key) > 0 {
			return key
		}
	}
	return []byte(secret)
}
