package probe

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Message returns the message that the signature of a request covers (contract 5.2).
func Message(method, target, timestamp string, body []byte) []byte {
	if len(body) == 0 {
		body = []byte("{}")
	}
	return []byte(method + "|" + target + "|" + timestamp + "|" + string(body))
}

// Sign returns the value of X-Sdk-Signature. apiSecret is a base64-encoded PKCS#8 key, whose last
// 32 bytes are the seed.
func Sign(apiSecret string, message []byte) (string, error) {
	der, err := base64.StdEncoding.DecodeString(apiSecret)
	if err != nil || len(der) < ed25519.SeedSize {
		return "", fmt.Errorf("apiSecret is not a base64-encoded PKCS#8 key")
	}
	key := ed25519.NewKeyFromSeed(der[len(der)-ed25519.SeedSize:])
	return base64.StdEncoding.EncodeToString(ed25519.Sign(key, message)), nil
}

// Timestamp returns the value of X-Sdk-Timestamp.
func Timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// callbackSignature returns the value of X-Svc-Signature (contract 5.3).
func callbackSignature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "hmac-sha256-v1=" + hex.EncodeToString(mac.Sum(nil))
}

// webhookSignature returns the value of webhook-signature (Standard Webhooks 1.0.0).
func webhookSignature(secret, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
