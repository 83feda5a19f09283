package hook

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// defaultTolerance is how many seconds a timestamp may differ from the clock.
const defaultTolerance int32 = 300

// minSecret is the length of the shortest previous secret, in characters. The schema has it for
// the secret.
const minSecret = 8

// presets has the settings of known senders.
var presets = map[api.VerificationPreset]api.Verification{
	api.VerificationPresetStripe: {
		Scheme: api.VerificationSchemeTimestampedHmac, Header: "Stripe-Signature", Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingHex,
		SignedText: new("{timestamp}.{body}"), Element: new("v1"), TimestampElement: new("t"), DeliveryField: new("/id"),
	},
	api.VerificationPresetSlack: {
		Scheme: api.VerificationSchemeTimestampedHmac, Header: "X-Slack-Signature", Prefix: "v0=", Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingHex,
		SignedText: new("v0:{timestamp}:{body}"), TimestampHeader: new("X-Slack-Request-Timestamp"), FormField: new("payload"),
		DeliveryField: new("/event_id"), Handshake: &api.VerificationHandshake{urlVerification},
	},
	api.VerificationPresetGithub: {
		Scheme: api.VerificationSchemeHmac, Header: "X-Hub-Signature-256", Prefix: "sha256=", Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingHex,
		DeliveryHeader: new("X-GitHub-Delivery"), FormField: new("payload"),
	},
	api.VerificationPresetShopify: {
		Scheme: api.VerificationSchemeHmac, Header: "X-Shopify-Hmac-Sha256", Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingBase64,
		DeliveryHeader: new("X-Shopify-Webhook-Id"),
	},
	api.VerificationPresetStandardWebhooks: standardWebhooks,
}

var standardWebhooks = api.Verification{
	Scheme: api.VerificationSchemeStandardWebhooks, Header: standardSignature, Prefix: "v1,", Algorithm: api.VerificationAlgorithmSha256,
	Encoding: api.VerificationEncodingBase64, DeliveryHeader: new(standardID),
}

// secrets are the secrets of a hook. previous may be empty.
type secrets struct{ current, previous string }

func (s secrets) all() []string {
	if s.previous == "" {
		return []string{s.current}
	}
	return []string{s.current, s.previous}
}

// check fills in the defaults of a verification. If the request contains no secret or no previous
// secret, check uses the current ones, which are those of the current scheme. It returns
// INVALID_INPUT if the verification is invalid.
func check(requested *api.NewVerification, current secrets, scheme api.VerificationScheme) (v api.Verification, kept secrets, err error) {
	if kept, err = checkSecrets(requested, current); err != nil {
		return v, kept, err
	}
	if details := misplaced(requested); len(details) > 0 {
		return v, kept, fault.Malformed(details)
	}
	if requested.Preset != nil {
		v = presets[*requested.Preset]
		v.Preset = requested.Preset
	} else if v, err = described(requested); err != nil {
		return v, kept, err
	}
	if err := override(&v, requested); err != nil {
		return v, kept, err
	}
	for _, one := range []struct {
		pointer, text string
		given         bool
	}{{"/verification/secret", kept.current, requested.Secret != nil}, {"/verification/previousSecret", kept.previous, requested.PreviousSecret != nil}} {
		if _, err := keyOf(v, one.text); err != nil && one.text != "" && (one.given || scheme != v.Scheme || v.Scheme != api.VerificationSchemeStandardWebhooks) {
			return v, kept, fault.InvalidAt(one.pointer, "%s", err)
		}
	}
	return v, kept, nil
}

func checkSecrets(requested *api.NewVerification, current secrets) (secrets, error) {
	kept := current
	if requested.Secret != nil {
		kept.current = *requested.Secret
	}
	if requested.PreviousSecret != nil {
		kept.previous = *requested.PreviousSecret
	}
	if kept.current == "" {
		return kept, fault.InvalidAt("/verification/secret", "is required")
	}
	if kept.previous != "" && utf8.RuneCountInString(kept.previous) < minSecret {
		return kept, fault.InvalidAt("/verification/previousSecret", "must have at least %d characters, or be empty to remove it", minSecret)
	}
	for name, text := range map[string]*string{"secret": &kept.current, "previousSecret": &kept.previous, "verifyToken": requested.VerifyToken} {
		if text != nil && envref.In(*text) {
			return kept, fault.InvalidAt("/verification/"+name, "must not contain an environment variable, which only runs can use")
		}
	}
	return kept, nil
}

// misplaced returns the faults of fields that have no meaning with the preset or the scheme. With
// standardWebhooks, fields of hmac are ignored, because existing clients send them.
func misplaced(r *api.NewVerification) (details []fault.Detail) {
	always := []string{"secret", "previousSecret", "formField"}
	var with string
	var allowed []string
	switch scheme := value(r.Scheme, api.VerificationSchemeHmac); {
	case r.Preset != nil:
		with, allowed = "a preset", []string{"toleranceSeconds", "deliveryHeader", "deliveryField", "acceptRepeatedBodies"}
	case scheme == api.VerificationSchemeTimestampedHmac:
		return nil
	case scheme == api.VerificationSchemeToken:
		with, allowed = "the scheme token", []string{"scheme", "verifyToken", "handshake", "header", "prefix", "deliveryHeader", "deliveryField"}
	case scheme == api.VerificationSchemeStandardWebhooks:
		with, allowed = "the scheme standardWebhooks", []string{"scheme", "verifyToken", "handshake", "toleranceSeconds", "header", "prefix", "algorithm", "encoding", "deliveryHeader", "acceptRepeatedBodies"}
	default:
		with, allowed = "the scheme hmac", []string{"scheme", "verifyToken", "handshake", "secretEncoding", "header", "prefix", "algorithm", "encoding", "deliveryHeader", "deliveryField", "acceptRepeatedBodies"}
	}
	for _, one := range []struct {
		name  string
		given bool
	}{
		{"scheme", r.Scheme != nil}, {"verifyToken", r.VerifyToken != nil}, {"secretEncoding", r.SecretEncoding != nil}, {"header", r.Header != nil},
		{"prefix", r.Prefix != nil}, {"algorithm", r.Algorithm != nil}, {"encoding", r.Encoding != nil}, {"signedText", r.SignedText != nil},
		{"element", r.Element != nil}, {"timestampHeader", r.TimestampHeader != nil}, {"timestampElement", r.TimestampElement != nil}, {"idHeader", r.IDHeader != nil},
		{"toleranceSeconds", r.ToleranceSeconds != nil}, {"deliveryHeader", r.DeliveryHeader != nil}, {"deliveryField", r.DeliveryField != nil}, {"handshake", r.Handshake != nil},
		{"acceptRepeatedBodies", value(r.AcceptRepeatedBodies, false)},
	} {
		if one.given && !slices.Contains(allowed, one.name) && !slices.Contains(always, one.name) {
			details = append(details, fault.NewDetail("/verification/"+one.name, "has no effect with "+with+": leave it out"))
		}
	}
	return details
}

func value[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

// described returns the settings of a request without a preset.
func described(r *api.NewVerification) (api.Verification, error) {
	v := api.Verification{
		Scheme: value(r.Scheme, api.VerificationSchemeHmac), Header: value(r.Header, ""), Prefix: value(r.Prefix, ""),
		Algorithm: cmp.Or(value(r.Algorithm, ""), api.VerificationAlgorithmSha256), Encoding: cmp.Or(value(r.Encoding, ""), api.VerificationEncodingHex),
		SecretEncoding: r.SecretEncoding,
	}
	switch v.Scheme {
	case api.VerificationSchemeStandardWebhooks:
		return standardWebhooks, nil
	case api.VerificationSchemeToken:
		if v.Header = cmp.Or(v.Header, "Authorization"); r.Prefix == nil && strings.EqualFold(v.Header, "Authorization") {
			v.Prefix = "Bearer "
		}
		return v, nil
	}
	if v.Header == "" {
		return v, fault.InvalidAt("/verification/header", "is required: the name of the header that contains the signature")
	}
	if v.Scheme == api.VerificationSchemeTimestampedHmac {
		v.SignedText, v.Element, v.TimestampHeader, v.TimestampElement, v.IDHeader = r.SignedText, r.Element, r.TimestampHeader, r.TimestampElement, r.IDHeader
		return v, checkText(v)
	}
	return v, nil
}

// checkText checks that a timestampedHmac says where each part of its signed text is.
func checkText(v api.Verification) error {
	if v.SignedText == nil {
		return fault.InvalidAt("/verification/signedText", "is required: the text that the HMAC covers, such as {timestamp}.{body}")
	}
	text, err := signature.ParseTemplate(*v.SignedText)
	switch {
	case err != nil:
		return fault.InvalidAt("/verification/signedText", "%s", err)
	case text.Timed() && v.TimestampHeader == nil && v.TimestampElement == nil:
		return fault.InvalidAt("/verification/timestampHeader", "is required, or timestampElement, because signedText has {timestamp}")
	case v.TimestampHeader != nil && v.TimestampElement != nil:
		return fault.InvalidAt("/verification/timestampElement", "must be left out if there is a timestampHeader")
	case !text.Timed() && v.TimestampHeader != nil:
		return fault.InvalidAt("/verification/timestampHeader", "requires {timestamp} in signedText")
	case !text.Timed() && v.TimestampElement != nil:
		return fault.InvalidAt("/verification/timestampElement", "requires {timestamp} in signedText")
	case v.TimestampElement != nil && v.Element == nil:
		return fault.InvalidAt("/verification/element", "is required, because the header also has the timestamp")
	case v.Element != nil && v.TimestampElement != nil && *v.Element == *v.TimestampElement:
		return fault.InvalidAt("/verification/timestampElement", "must be another element than that of the signature")
	case text.Identified() && v.IDHeader == nil:
		return fault.InvalidAt("/verification/idHeader", "is required, because signedText has {id}")
	case !text.Identified() && v.IDHeader != nil:
		return fault.InvalidAt("/verification/idHeader", "requires {id} in signedText")
	}
	return nil
}

// override sets the fields that a request may set over a preset.
func override(v *api.Verification, r *api.NewVerification) error {
	standard := v.Scheme == api.VerificationSchemeStandardWebhooks
	if timed := standard || textOf(*v).Timed(); timed {
		v.ToleranceSeconds = new(value(r.ToleranceSeconds, defaultTolerance))
	} else if r.ToleranceSeconds != nil {
		return fault.InvalidAt("/verification/toleranceSeconds", "requires a signature that covers a timestamp")
	}
	if r.FormField != nil {
		if v.FormField = r.FormField; *r.FormField == "" {
			v.FormField = nil
		}
	}
	if r.Handshake != nil && len(*r.Handshake) > 0 {
		v.Handshake = r.Handshake
	}
	if standard && r.Preset == nil {
		return nil
	}
	switch {
	case r.DeliveryHeader != nil && r.DeliveryField != nil:
		return fault.InvalidAt("/verification/deliveryField", "must be left out if there is a deliveryHeader")
	case r.DeliveryHeader != nil:
		v.DeliveryHeader, v.DeliveryField = r.DeliveryHeader, nil
	case r.DeliveryField != nil:
		v.DeliveryHeader, v.DeliveryField = nil, r.DeliveryField
	}
	if value(r.AcceptRepeatedBodies, false) {
		if v.DeliveryHeader == nil {
			return fault.InvalidAt("/verification/acceptRepeatedBodies", "requires deliveryHeader, which identifies a delivery")
		}
		v.AcceptRepeatedBodies = r.AcceptRepeatedBodies
	}
	return nil
}

// textOf returns the text that a signature of an HMAC covers. A stored text is valid.
func textOf(v api.Verification) signature.Template {
	if v.SignedText == nil {
		return signature.Body
	}
	text, err := signature.ParseTemplate(*v.SignedText)
	if err != nil {
		return signature.Body
	}
	return text
}

// keyOf returns the key of an HMAC. The error says what is wrong with the secret, without it.
func keyOf(v api.Verification, secret string) ([]byte, error) {
	if v.Scheme == api.VerificationSchemeStandardWebhooks {
		return signature.WebhookKey(secret), signature.CheckSecret(secret)
	}
	switch value(v.SecretEncoding, api.VerificationSecretEncodingText) {
	case api.VerificationSecretEncodingBase64:
		key, err := base64.StdEncoding.DecodeString(secret)
		if err != nil || len(key) == 0 {
			return nil, errors.New("is not standard base64 with padding, which secretEncoding says")
		}
		return key, nil
	case api.VerificationSecretEncodingHex:
		key, err := hex.DecodeString(secret)
		if err != nil || len(key) == 0 {
			return nil, errors.New("is not hexadecimal, which secretEncoding says")
		}
		return key, nil
	}
	return []byte(secret), nil
}
