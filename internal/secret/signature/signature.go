// Package signature defines which bytes are signed and how: the message of an API request (contract
// 5.2), its Ed25519 signature, and the HMAC signatures of a callback (contract 5.3, Standard
// Webhooks).
//
// It is pure: it doesn't use a clock, storage or HTTP. It never re-encodes a body: the caller
// decides which bytes were sent. Two different signable requests have different messages, except
// that the contract treats an empty body and the body {} as equal.
package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
)

// emptyBody replaces an empty body in the message (contract 5.2).
const emptyBody = "{}"

// Message returns METHOD|PATH|TIMESTAMP|BODY, the bytes that a request's signature covers. target is
// everything after the host as on the request line, including the query. timestamp is the value of
// X-Sdk-Timestamp. body is used unchanged, except that an empty one becomes {}.
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

// Signable reports whether the parts before the body are unambiguous in a message: a method of
// upper-case letters, a target of visible ASCII that starts with a slash and has no bar, a timestamp
// of digits. HTTP allows a bar in a method, so verifiers must call Signable.
func Signable(method, target, timestamp string) bool {
	return within(method, func(c byte) bool { return 'A' <= c && c <= 'Z' }) &&
		within(target, func(c byte) bool { return '!' <= c && c <= '~' && c != '|' }) && target[0] == '/' &&
		within(timestamp, func(c byte) bool { return '0' <= c && c <= '9' })
}

// within reports whether text is not empty and contains only allowed bytes.
func within(text string, allowed func(byte) bool) bool {
	for i := range len(text) {
		if !allowed(text[i]) {
			return false
		}
	}
	return text != ""
}

// Sign returns the 64-byte signature of message.
func Sign(private ed25519.PrivateKey, message []byte) []byte {
	return ed25519.Sign(private, message)
}

// Verify reports whether sig is the signature of message under public. It returns false for keys
// and signatures of a wrong length, and for signatures with an unreduced S.
func Verify(public ed25519.PublicKey, message, sig []byte) bool {
	return len(public) == ed25519.PublicKeySize && ed25519.Verify(public, message, sig)
}

// Format returns a signature in the form of X-Sdk-Signature.
func Format(sig []byte) string {
	return base64.StdEncoding.EncodeToString(sig)
}

var errSignatureForm = errors.New("signature is not 64 bytes in standard base64 with padding")

// ParseSignature parses the value of X-Sdk-Signature. It accepts only one spelling of the 64 bytes:
// standard alphabet, padded, no white space, no spare bits (decisions 2.3). So a signature can't be
// written in two ways.
func ParseSignature(header string) ([]byte, error) {
	const size = (ed25519.SignatureSize + 2) / 3 * 4
	if len(header) != size { // the decoder ignores line breaks, but the length includes them
		return nil, errSignatureForm
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(header)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return nil, errSignatureForm
	}
	return sig, nil
}
