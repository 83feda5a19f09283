package cli

import (
	"github.com/weft-automation/weft/gen/api"
)

// verified has the flags for how deliveries are authenticated.
type verified struct {
	Preset           string   `default:"" enum:",stripe,slack,github,shopify,standardWebhooks" placeholder:"NAME" help:"Sender whose signatures are known: stripe, slack, github, shopify or standardWebhooks."`
	Scheme           string   `default:"" enum:",hmac,timestampedHmac,token" placeholder:"NAME" help:"What authenticates a delivery: hmac, timestampedHmac, which needs --signed-text, or token, the secret itself in a header (hmac)."`
	Header           string   `xor:"scheme" placeholder:"HEADER" help:"Header with the HMAC, such as X-Hub-Signature-256, or with the secret of token (Authorization)."`
	Prefix           string   `placeholder:"TEXT" help:"Text before the HMAC or the secret in the header, such as sha256=."`
	Algorithm        string   `default:"" enum:",sha1,sha256,sha384,sha512" placeholder:"NAME" help:"Hash function of the HMAC: sha1, sha256, sha384 or sha512 (sha256)."`
	Encoding         string   `default:"" enum:",hex,base64,base64url" placeholder:"NAME" help:"Encoding of the HMAC: hex, base64 or base64url (hex)."`
	SecretEncoding   string   `name:"secret-encoding" default:"" enum:",text,base64,hex" placeholder:"NAME" help:"Encoding of the secret: text, base64 or hex (text)."`
	SignedText       string   `name:"signed-text" placeholder:"TEXT" help:"Text that the HMAC of timestampedHmac covers, such as {timestamp}.{body}."`
	Element          string   `placeholder:"NAME" help:"Element of the header that holds the HMAC, such as v1 of t=1767225600,v1=5257a869."`
	TimestampHeader  string   `name:"timestamp-header" placeholder:"HEADER" help:"Header with the timestamp."`
	TimestampElement string   `name:"timestamp-element" placeholder:"NAME" help:"Element of the header that holds the timestamp, such as t."`
	IDHeader         string   `name:"id-header" placeholder:"HEADER" help:"Header with the signed ID."`
	Tolerance        int32    `placeholder:"SECONDS" help:"How many seconds the timestamp may differ from the clock (300)."`
	DeliveryHeader   string   `name:"delivery-header" xor:"delivery" placeholder:"HEADER" help:"Header with the ID of a delivery. Deliveries with the same ID or body start one run; without an ID each delivery starts a run."`
	DeliveryField    string   `name:"delivery-field" xor:"delivery" placeholder:"POINTER" help:"Place of the ID of a delivery in its body, as a JSON pointer such as /event_id."`
	AcceptRepeated   bool     `name:"accept-repeated-bodies" help:"Start a run for a delivery with a new ID even if its body was received before. Anyone who captured a delivery can then send it again with another ID. Needs --delivery-header."`
	Handshake        []string `enum:"urlVerification,validationToken" placeholder:"NAME" help:"Handshake of the sender that the hook answers: urlVerification or validationToken. Repeatable."`
	VerifyTokenFile  string   `name:"verify-token-file" placeholder:"FILE" help:"File with the token by which the sender verifies the address (hub.verify_token). An empty file removes the token."`
	FormField        string   `name:"form-field" placeholder:"NAME" help:"Field of a form that contains the JSON of the delivery, such as payload."`
	PreviousFile     string   `name:"previous-secret-file" placeholder:"FILE" help:"File with the previous secret, which is accepted as well. An empty file removes it."`
	StandardWebhooks bool     `name:"standard-webhooks" xor:"scheme" help:"Verify deliveries by Standard Webhooks."`
}

// anyScheme names the flags that describe a verification.
const anyScheme = "--preset, --scheme, --header or --standard-webhooks"

// given reports whether the flags describe a verification.
func (c verified) given() bool {
	return c.Preset != "" || c.Scheme != "" || c.Header != "" || c.StandardWebhooks
}

// check rejects flags that need others. The service checks the rest.
func (c verified) check() error {
	described := c.Header != "" || c.Scheme != ""
	if c.Preset != "" && (described || c.StandardWebhooks) {
		return usage("--preset can't be used with --scheme, --header or --standard-webhooks")
	}
	if c.Scheme != "" && c.StandardWebhooks {
		return usage("--scheme can't be used with --standard-webhooks")
	}
	if !described && (c.Prefix != "" || c.Algorithm != "" || c.Encoding != "") {
		return usage("--prefix, --algorithm and --encoding need --header")
	}
	for flag, set := range map[string]bool{"--delivery-header": c.DeliveryHeader != "", "--delivery-field": c.DeliveryField != ""} {
		if set && !described && c.Preset == "" {
			return usage("%s needs --header, --scheme or --preset", flag)
		}
	}
	if c.AcceptRepeated && c.DeliveryHeader == "" && c.Preset == "" {
		return usage("--accept-repeated-bodies needs --delivery-header or --preset")
	}
	for flag, set := range map[string]bool{
		"--secret-encoding": c.SecretEncoding != "", "--signed-text": c.SignedText != "", "--element": c.Element != "", "--timestamp-header": c.TimestampHeader != "",
		"--timestamp-element": c.TimestampElement != "", "--id-header": c.IDHeader != "",
	} {
		if set && !described {
			return usage("%s needs --scheme or --header", flag)
		}
	}
	for flag, set := range map[string]bool{
		"--form-field": c.FormField != "", "--previous-secret-file": c.PreviousFile != "", "--tolerance": c.Tolerance != 0, "--handshake": len(c.Handshake) > 0,
	} {
		if set && !c.given() {
			return usage("%s needs %s", flag, anyScheme)
		}
	}
	if c.VerifyTokenFile != "" && !described && !c.StandardWebhooks {
		return usage("--verify-token-file needs --header, --scheme or --standard-webhooks")
	}
	return nil
}

// verification returns how deliveries are authenticated, according to the flags. Without a secret,
// a hook keeps its own.
func (c verified) verification(secret *string) (*api.NewVerification, error) {
	token, err := fileContent(c.VerifyTokenFile, "verify token")
	if err != nil {
		return nil, err
	}
	previous, err := fileContent(c.PreviousFile, "previous secret")
	if err != nil {
		return nil, err
	}
	v := &api.NewVerification{
		Preset: optional(api.VerificationPreset(c.Preset)), Scheme: optional(api.VerificationScheme(c.Scheme)), Secret: secret, PreviousSecret: previous, VerifyToken: token,
		Header: optional(c.Header), Prefix: optional(c.Prefix), Algorithm: optional(api.VerificationAlgorithm(c.Algorithm)), Encoding: optional(api.VerificationEncoding(c.Encoding)),
		SecretEncoding: optional(api.VerificationSecretEncoding(c.SecretEncoding)), SignedText: optional(c.SignedText), Element: optional(c.Element),
		TimestampHeader: optional(c.TimestampHeader), TimestampElement: optional(c.TimestampElement), IDHeader: optional(c.IDHeader), ToleranceSeconds: optional(c.Tolerance),
		DeliveryHeader: optional(c.DeliveryHeader), DeliveryField: optional(c.DeliveryField), AcceptRepeatedBodies: optional(c.AcceptRepeated), FormField: optional(c.FormField),
	}
	if len(c.Handshake) > 0 {
		v.Handshake = &c.Handshake
	}
	if c.StandardWebhooks {
		v.Scheme = new(api.VerificationSchemeStandardWebhooks)
	}
	return v, nil
}
