package auth

import (
	"net/http"
	"strconv"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// proof is what the three headers say, well-formed but not yet believed.
type proof struct {
	key       string
	timestamp string // as sent: these are the bytes that were signed
	at        int64
	signature []byte
}

// readProof takes each of the three headers exactly once.
func readProof(header http.Header) (proof, *fault.Error) {
	var p proof
	key, timestamp, sig := header[HeaderKey], header[HeaderTimestamp], header[HeaderSignature]
	if len(key) != 1 || key[0] == "" {
		return p, unauthorized(reasonMissingKey, "the header %s must be there exactly once", HeaderKey)
	}
	if len(timestamp) == 0 || timestamp[0] == "" {
		return p, unauthorized(reasonMissingTimestamp, "the header %s is missing", HeaderTimestamp)
	}
	if len(sig) == 0 || sig[0] == "" {
		return p, unauthorized(reasonMissingSignature, "the header %s is missing", HeaderSignature)
	}
	at, ok := readTimestamp(timestamp)
	if !ok {
		return p, unauthorized(reasonMalformedTimestamp,
			"the header %s must be whole seconds since 1970 in decimal digits, once", HeaderTimestamp)
	}
	if len(sig) > 1 {
		return p, unauthorized(reasonMalformedSignature, "the header %s must be there exactly once", HeaderSignature)
	}
	raw, err := signature.ParseSignature(sig[0])
	if err != nil {
		return p, unauthorized(reasonMalformedSignature,
			"the header %s must be 64 bytes in standard base64 with padding", HeaderSignature)
	}
	return proof{key: key[0], timestamp: timestamp[0], at: at, signature: raw}, nil
}

// readTimestamp takes one value of digits without leading zeros, so that a
// second has one spelling.
func readTimestamp(values []string) (int64, bool) {
	if len(values) != 1 || len(values[0]) > 1 && values[0][0] == '0' {
		return 0, false
	}
	at, err := strconv.ParseUint(values[0], 10, 63) // refuses signs, blanks and underscores
	return int64(at), err == nil
}
