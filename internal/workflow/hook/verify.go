package hook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// The headers of Standard Webhooks.
const (
	standardID        = "webhook-id"
	standardAt        = "webhook-timestamp"
	standardSignature = "webhook-signature"
)

// check writes the defaults of a verification out; kept is the secret that stays if none is
// given. INVALID_INPUT.
func check(given *api.NewVerification, kept string) (v api.Verification, secret string, err error) {
	if secret = kept; given.Secret != nil {
		secret = *given.Secret
	}
	switch {
	case secret == "":
		return v, "", fault.InvalidAt("/verification/secret", "is required")
	case envref.In(secret):
		return v, "", fault.InvalidAt("/verification/secret", "names an environment variable, which only runs have")
	}
	if given.Scheme != nil && *given.Scheme == api.VerificationSchemeStandardWebhooks {
		if err := signature.CheckSecret(secret); err != nil && given.Secret != nil {
			return v, "", fault.InvalidAt("/verification/secret", "%s", err)
		}
		return api.Verification{
			Scheme: *given.Scheme, Header: standardSignature, Prefix: "v1,", Algorithm: api.VerificationAlgorithmSha256,
			Encoding: api.VerificationEncodingBase64, DeliveryHeader: new(standardID),
		}, secret, nil
	}
	v = api.Verification{
		Scheme: api.VerificationSchemeHmac, Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingHex,
		DeliveryHeader: given.DeliveryHeader,
	}
	if given.AcceptRepeatedBodies != nil && *given.AcceptRepeatedBodies {
		if given.DeliveryHeader == nil {
			return v, "", fault.InvalidAt("/verification/acceptRepeatedBodies", "needs deliveryHeader, by which deliveries are told apart")
		}
		v.AcceptRepeatedBodies = given.AcceptRepeatedBodies
	}
	if given.Header == nil {
		return v, "", fault.InvalidAt("/verification/header", "is required: the header that holds the signature")
	}
	v.Header = *given.Header
	if given.Prefix != nil {
		v.Prefix = *given.Prefix
	}
	if given.Algorithm != nil {
		v.Algorithm = cmp.Or(*given.Algorithm, v.Algorithm)
	}
	if given.Encoding != nil {
		v.Encoding = cmp.Or(*given.Encoding, v.Encoding)
	}
	return v, secret, nil
}

// verified reports whether a delivery was signed with the secret.
func verified(v api.Verification, secret string, header http.Header, body []byte, now time.Time) bool {
	if v.Scheme == api.VerificationSchemeStandardWebhooks {
		headers := signature.Webhook{
			ID: header.Values(standardID), Timestamp: header.Values(standardAt), Signature: header.Values(standardSignature),
		}
		return headers.Check(secret, body, now) == nil
	}
	values := header.Values(v.Header)
	if len(values) != 1 {
		return false
	}
	text, ok := strings.CutPrefix(values[0], v.Prefix)
	if !ok {
		return false
	}
	var given []byte
	var err error
	if v.Encoding == api.VerificationEncodingBase64 {
		given, err = base64.StdEncoding.Strict().DecodeString(text)
	} else {
		given, err = hex.DecodeString(text)
	}
	if err != nil {
		return false
	}
	algorithm := sha256.New
	if v.Algorithm == api.VerificationAlgorithmSha512 {
		algorithm = sha512.New
	}
	return hmac.Equal(given, digest(algorithm, secret, body))
}

func digest(algorithm func() hash.Hash, secret string, body []byte) []byte {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}
