package auth

import (
	"net/http"
	"strconv"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// proof holds the values of the three headers: well-formed, but not verified.
type proof struct {
	key       string
	timestamp string // as sent, because these bytes were signed
	at        int64
	signature []byte
}

// Signing reports whether a request has any of the three headers, so that it must be signed.
func Signing(header http.Header) bool {
	return header[HeaderKey] != nil || header[HeaderTimestamp] != nil || header[HeaderSignature] != nil
}

// readProof parses the three headers, each of which must occur exactly once.
func readProof(header http.Header) (proof, *fault.Error) {
	var p proof
	key, timestamp, sig := header[HeaderKey], header[HeaderTimestamp], header[HeaderSignature]
	if len(key) != 1 || key[0] == "" {
		return p, unauthorized(reasonMissingKey, "Send the header %s exactly once.", HeaderKey)
	}
	if len(timestamp) == 0 || timestamp[0] == "" {
		return p, unauthorized(reasonMissingTimestamp, "The header %s is missing.", HeaderTimestamp)
	}
	if len(sig) == 0 || sig[0] == "" {
		return p, unauthorized(reasonMissingSignature, "The header %s is missing.", HeaderSignature)
	}
	at, ok := readTimestamp(timestamp)
	if !ok {
		return p, unauthorized(reasonMalformedTimestamp,
			"Send the header %s exactly once, in whole seconds since 1970 and in decimal digits.", HeaderTimestamp)
	}
	if len(sig) > 1 {
		return p, unauthorized(reasonMalformedSignature, "Send the header %s exactly once.", HeaderSignature)
	}
	raw, err := signature.ParseSignature(sig[0])
	if err != nil {
		return p, unauthorized(reasonMalformedSignature,
			"The header %s must be 64 bytes in standard base64 with padding.", HeaderSignature)
	}
	return proof{key: key[0], timestamp: timestamp[0], at: at, signature: raw}, nil
}

// readTimestamp parses a single value of decimal digits. It rejects leading zeros, so
// that each second has only one spelling.
func readTimestamp(values []string) (int64, bool) {
	if len(values) != 1 || len(values[0]) > 1 && values[0][0] == '0' {
		return 0, false
	}
	at, err := strconv.ParseUint(values[0], 10, 63) // rejects signs, blanks and underscores
	return int64(at), err == nil
}
