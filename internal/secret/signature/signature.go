// Package signature defines which bytes are signed and how: the message of an API request
// (contract 5.2), Ed25519 over it, and the HMAC signatures of a callback (contract 5.3, Standard
// Webhooks).
//
// It is pure: no clock, no storage, no HTTP. It never re-encodes a body: the caller decides which
// bytes were sent. The one invariant: two different signable requests have two different messages.
// The exception is an empty body and the body {}, which the contract equates.
package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
)

// emptyBody stands in the message for a body of no bytes (contract 5.2).
const emptyBody = "{}"

// Message is METHOD|PATH|TIMESTAMP|BODY, the text that a request's signature
// covers. target is everything after the host as it stands on the request line,
// query included; timestamp is the text of X-Sdk-Timestamp; body is taken as it
// is, and an empty one counts as {}.
func Message(method, target, timestamp string, body []byte) []byte {
	size := len(method) + len(target) + len(timestamp) + len(body) + len(emptyBody) + 3
	message := make([]byte, 0, size)
	message = append(message, method...)
	message = append(message, '|')
	message = append(message, target...)
	message = append(message, '|')
	message = append(message, timestamp...)
	message = append(message, '|')
	if len(body) == 0 {
		return append(message, emptyBody...)
	}
	return append(message, body...)
}

// Signable says whether the parts before the body can stand in a message
// without shifting its borders: a method of upper-case letters, a target of
// visible ASCII that begins with a slash and has no bar, a timestamp of digits.
// HTTP itself allows a bar in a method, so a verifier must ask.
func Signable(method, target, timestamp string) bool {
	return within(method, func(c byte) bool { return 'A' <= c && c <= 'Z' }) &&
		within(target, func(c byte) bool { return '!' <= c && c <= '~' && c != '|' }) && target[0] == '/' &&
		within(timestamp, func(c byte) bool { return '0' <= c && c <= '9' })
}

// within says whether text is not empty and holds only bytes that are allowed.
func within(text string, allowed func(byte) bool) bool {
	for i := range len(text) {
		if !allowed(text[i]) {
			return false
		}
	}
	return text != ""
}

// Sign makes the 64-byte signature of message.
func Sign(private ed25519.PrivateKey, message []byte) []byte {
	return ed25519.Sign(private, message)
}

// Verify says whether sig is the signature of message under public. Keys and
// signatures of a wrong length, and those with S not reduced, are never valid.
func Verify(public ed25519.PublicKey, message, sig []byte) bool {
	return len(public) == ed25519.PublicKeySize && ed25519.Verify(public, message, sig)
}

// Format is the text of a signature as X-Sdk-Signature carries it.
func Format(sig []byte) string {
	return base64.StdEncoding.EncodeToString(sig)
}

var errSignatureForm = errors.New("signature is not 64 bytes in standard base64 with padding")

// ParseSignature reads the value of X-Sdk-Signature. Only one spelling of the
// 64 bytes is taken: standard alphabet, padded, no white space, no spare bits
// (decisions 2.3), so that a signature has no second text.
func ParseSignature(header string) ([]byte, error) {
	const size = (ed25519.SignatureSize + 2) / 3 * 4
	if len(header) != size { // a decoder would skip line breaks; the length does not
		return nil, errSignatureForm
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(header)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return nil, errSignatureForm
	}
	return sig, nil
}
