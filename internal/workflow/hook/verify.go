package hook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// Headers of the Standard Webhooks specification.
const (
	standardID        = "webhook-id"
	standardAt        = "webhook-timestamp"
	standardSignature = "webhook-signature"
)

// check fills in the defaults of a verification. If the request contains no secret, check uses the
// current secret, which is that of the current scheme. It returns INVALID_INPUT if the verification
// is invalid.
func check(requested *api.NewVerification, current string, scheme api.VerificationScheme) (v api.Verification, secret string, err error) {
	if secret = current; requested.Secret != nil {
		secret = *requested.Secret
	}
	switch {
	case secret == "":
		return v, "", fault.InvalidAt("/verification/secret", "is required")
	case envref.In(secret):
		return v, "", fault.InvalidAt("/verification/secret", "must not contain an environment variable, which only runs can use")
	}
	if requested.VerifyToken != nil && envref.In(*requested.VerifyToken) {
		return v, "", fault.InvalidAt("/verification/verifyToken", "must not contain an environment variable, which only runs can use")
	}
	if requested.Scheme != nil && *requested.Scheme == api.VerificationSchemeStandardWebhooks {
		if err := signature.CheckSecret(secret); err != nil && (requested.Secret != nil || scheme != *requested.Scheme) {
			return v, "", fault.InvalidAt("/verification/secret", "%s", err)
		}
		return api.Verification{
			Scheme: *requested.Scheme, Header: standardSignature, Prefix: "v1,", Algorithm: api.VerificationAlgorithmSha256,
			Encoding: api.VerificationEncodingBase64, DeliveryHeader: new(standardID),
			FormField: formField(requested),
		}, secret, nil
	}
	v = api.Verification{
		Scheme: api.VerificationSchemeHmac, Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingHex,
		DeliveryHeader: requested.DeliveryHeader, FormField: formField(requested),
	}
	if requested.AcceptRepeatedBodies != nil && *requested.AcceptRepeatedBodies {
		if requested.DeliveryHeader == nil {
			return v, "", fault.InvalidAt("/verification/acceptRepeatedBodies", "requires deliveryHeader, which identifies a delivery")
		}
		v.AcceptRepeatedBodies = requested.AcceptRepeatedBodies
	}
	if requested.Header == nil {
		return v, "", fault.InvalidAt("/verification/header", "is required: the name of the header that contains the signature")
	}
	v.Header = *requested.Header
	if requested.Prefix != nil {
		v.Prefix = *requested.Prefix
	}
	if requested.Algorithm != nil {
		v.Algorithm = cmp.Or(*requested.Algorithm, v.Algorithm)
	}
	if requested.Encoding != nil {
		v.Encoding = cmp.Or(*requested.Encoding, v.Encoding)
	}
	return v, secret, nil
}

// formField returns the formField of a request, or nil if it is empty.
func formField(requested *api.NewVerification) *string {
	if requested.FormField != nil && *requested.FormField == "" {
		return nil
	}
	return requested.FormField
}

// The reasons why the signature of a delivery is rejected. Only the hook shows them: the response to
// the sender is the same for all.
const (
	missingSignature   = "missing_signature"
	malformedSignature = "malformed_signature"
	invalidSignature   = "invalid_signature"
	timestampExpired   = "timestamp_expired"
	timestampInFuture  = "timestamp_in_future"
)

// verify returns "" if a delivery has a valid signature, and otherwise why it is rejected.
func verify(v api.Verification, secret string, header http.Header, body []byte, now time.Time) (reason string) {
	if v.Scheme == api.VerificationSchemeStandardWebhooks {
		headers := signature.Webhook{
			ID: header.Values(standardID), Timestamp: header.Values(standardAt), Signature: header.Values(standardSignature),
		}
		return standardReason(headers.Check(secret, body, now))
	}
	values := header.Values(v.Header)
	if len(values) == 0 {
		return missingSignature
	}
	text, ok := strings.CutPrefix(values[0], v.Prefix)
	if !ok || len(values) > 1 {
		return malformedSignature
	}
	var sent []byte
	var err error
	if v.Encoding == api.VerificationEncodingBase64 {
		sent, err = base64.StdEncoding.Strict().DecodeString(text)
	} else {
		sent, err = hex.DecodeString(text)
	}
	if err != nil {
		return malformedSignature
	}
	algorithm := sha256.New
	if v.Algorithm == api.VerificationAlgorithmSha512 {
		algorithm = sha512.New
	}
	if !hmac.Equal(sent, digest(algorithm, secret, body)) {
		return invalidSignature
	}
	return ""
}

// standardReason returns the reason for an error of signature.Webhook.Check, and "" for nil.
func standardReason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, signature.ErrUnsigned):
		return missingSignature
	case errors.Is(err, signature.ErrMismatch):
		return invalidSignature
	case errors.Is(err, signature.ErrExpired):
		return timestampExpired
	case errors.Is(err, signature.ErrInFuture):
		return timestampInFuture
	}
	return malformedSignature
}

// digest returns the HMAC of body with the secret as its key.
func digest(algorithm func() hash.Hash, secret string, body []byte) []byte {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}
