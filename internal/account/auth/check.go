package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/secret/signature"
	"github.com/weft-automation/weft/internal/secret/signcheck"
)

// Limits for the signature checks of one client address: a burst, and a rate per second.
// At 20 ms for the most expensive check, the rate amounts to a tenth of a core.
const (
	checkBurst = 200
	checkRate  = 5
)

// maxCheckedBody bounds the body of a check, because each message that Check tries contains the
// body.
const maxCheckedBody = 64 << 10

// Claim is a request to check a signature: the fields of the check, the address of the
// client, and the host of the service as the client calls it.
type Claim struct {
	api.SignatureCheckRequest

	Sent   []byte // the complete body of the request, unknown fields included
	Client netip.Addr
	Host   string
}

// Check returns the message that the server would verify for a request, whether the
// signature is valid, and the probable mistakes. It returns INVALID_INPUT for a malformed
// claim, and RATE_LIMITED after too many checks or failures.
//
// Check reveals no more about a key than Verify does: only a caller who signed with the
// key's own secret learns that the signature belongs to a different message. Unknown, revoked
// and other keys cause the same work.
func (v *Verifier) Check(ctx context.Context, claim Claim) (api.SignatureCheck, error) {
	source := throttle.Subscriber(claim.Client)
	if wait := v.checks.Take(source); wait > 0 {
		return api.SignatureCheck{}, &fault.Error{
			Code: fault.RateLimited, Reason: "signature_checks", Message: "Too many signature checks from this address.", RetryAfter: wait,
		}
	}
	if wait := v.failures.Wait(source); wait > 0 && claim.complete() {
		return api.SignatureCheck{}, tooMany(wait)
	}
	body, err := claim.body()
	if secret := claim.withoutSecret(body); secret != nil {
		return api.SignatureCheck{}, secret
	}
	if err != nil {
		return api.SignatureCheck{}, err
	}
	request, found := signcheck.Read(claim.Method, claim.Path, claim.Timestamp, body)
	c := check{claim: claim, request: request, found: found, others: signcheck.Others(request, claim.Host)}
	c.build()
	if claim.MessageSha256 != nil {
		c.compare(strings.ToLower(*claim.MessageSha256))
	}
	if err := c.verify(ctx, v); err != nil {
		return api.SignatureCheck{}, err
	}
	if c.result.SignatureValid != nil && !*c.result.SignatureValid {
		v.failures.Count(source)
	}
	if valid := c.result.SignatureValid; request.Prefix != "" && !c.agreed && (valid == nil || !*valid) {
		c.add(signcheck.PathPrefixed.Possible())
	}
	c.time(v)
	return c.sorted(), nil
}

// valueOf returns the value of an optional field, or "" if the field is missing.
func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// complete reports whether the claim has everything that a verification needs.
func (c Claim) complete() bool { return valueOf(c.Signature) != "" && valueOf(c.APIKey) != "" }

// withoutSecret returns INVALID_INPUT if the claim contains an apiSecret. The response repeats
// parts of the claim, and may be stored where others can read it.
func (c Claim) withoutSecret(body []byte) error {
	for _, field := range []struct{ pointer, text string }{
		{"/signature", valueOf(c.Signature)}, {"/apiKey", valueOf(c.APIKey)}, {"/method", c.Method}, {"/path", c.Path}, {"/timestamp", c.Timestamp},
		{"/body", valueOf(c.Body)}, {"/bodyBase64", string(body)}, {"", string(c.Sent)},
	} {
		if signcheck.Secret(field.text) {
			refusal := fault.Invalid(field.pointer, "This contains the secret of an API key, which must never be sent. Revoke that key.")
			refusal.Reason = "secret_sent"
			return refusal
		}
	}
	return nil
}

func (c Claim) body() ([]byte, error) {
	if c.BodyBase64 == nil {
		return []byte(valueOf(c.Body)), nil
	}
	if c.Body != nil {
		return nil, fault.InvalidAt("/bodyBase64", "must not be set together with body")
	}
	body, err := base64.StdEncoding.DecodeString(*c.BodyBase64)
	if err != nil {
		return nil, fault.InvalidAt("/bodyBase64", "must be standard base64 with padding")
	}
	if len(body) > maxCheckedBody {
		return nil, fault.InvalidAt("/bodyBase64", "must be at most %d bytes when decoded", maxCheckedBody)
	}
	return body, nil
}

// check is the state of one call of Check.
type check struct {
	claim           Claim
	request         signcheck.Request
	message, asSent []byte // with the compact body, and with the body as sent
	others          []signcheck.Other
	found           []signcheck.Finding
	agreed          bool // the hash shows that the client signed the right message
	result          api.SignatureCheck
}

// build builds the messages that the server accepts.
func (c *check) build() {
	r := c.request
	c.message = signature.Message(r.Method, r.Target, r.Timestamp, strictjson.Compact(r.Body))
	c.asSent = signature.Message(r.Method, r.Target, r.Timestamp, r.Body)
	c.result.MessageBase64 = base64.StdEncoding.EncodeToString(c.message)
	c.result.MessageLength = int32(len(c.message))
	c.result.MessageSha256 = digest(c.message)
	if utf8.Valid(c.message) {
		c.result.Message = new(string(c.message))
	}
	if len(c.asSent) != len(c.message) {
		c.result.MessageAsSentSha256 = new(digest(c.asSent))
	}
}

func digest(message []byte) string {
	sum := sha256.Sum256(message)
	return hex.EncodeToString(sum[:])
}

// compare finds the message with the given SHA-256 and adds the mistake that led to it.
func (c *check) compare(sum string) {
	if sum == c.result.MessageSha256 || sum == valueOf(c.result.MessageAsSentSha256) {
		c.agreed = true
		return
	}
	for _, other := range c.others {
		if digest(other.Message) == sum {
			c.add(other.Finding)
			return
		}
	}
	c.add(signcheck.OtherMessage.Found())
}

// add adds a finding, unless the list has a finding with the same code.
func (c *check) add(f signcheck.Finding) {
	if !slices.ContainsFunc(c.found, func(g signcheck.Finding) bool { return g.Code == f.Code }) {
		c.found = append(c.found, f)
	}
}

// verify verifies the signature. It always tries all messages, so that the work is the same for
// every signature.
func (c *check) verify(ctx context.Context, v *Verifier) error {
	text := valueOf(c.claim.Signature)
	if text == "" {
		return nil
	}
	raw, wrong := signcheck.ReadSignature(text)
	for _, f := range wrong {
		c.add(f)
	}
	if !c.claim.complete() {
		return nil
	}
	for _, f := range signcheck.ReadKey(*c.claim.APIKey) {
		c.add(f)
	}
	c.result.SignatureValid = new(false)
	if raw == nil {
		return nil
	}
	key, err := v.keys.find(ctx, sha256.Sum256([]byte(*c.claim.APIKey)))
	if err != nil {
		return fmt.Errorf("look up API key: %w", err)
	}
	public := v.dummy
	if key.known {
		public = key.public
	}
	good, cause := c.try(public, raw)
	switch known := key.known && !key.over; {
	case known && good:
		*c.result.SignatureValid = len(wrong) == 0 && signature.Signable(c.request.Method, c.request.Target, c.request.Timestamp)
	case known && cause != nil:
		c.add(*cause)
	case c.agreed:
		c.add(signcheck.TheKey())
	default:
		c.add(signcheck.WrongKey.Possible())
	}
	return nil
}

// try reports whether sig is valid for a message that the server accepts. If sig isn't valid,
// cause is the mistake that explains the signature, or nil if no known mistake does.
func (c *check) try(public ed25519.PublicKey, sig []byte) (good bool, cause *signcheck.Finding) {
	asSent, compact := signature.Verify(public, c.asSent, sig), signature.Verify(public, c.message, sig)
	for _, other := range c.others {
		if signature.Verify(public, other.Message, sig) && cause == nil {
			cause = &other.Finding
		}
	}
	return asSent || compact, cause
}

// time checks the timestamp against the server's clock.
func (c *check) time(v *Verifier) {
	now := v.now()
	c.result.ServerTime = timestamp.Of(now)
	at, ok := readTimestamp([]string{c.request.Timestamp})
	if !ok {
		c.add(signcheck.TimeMalformed.Found())
		return
	}
	delta := at - now.Unix()
	c.result.DeltaSeconds = &delta
	switch {
	case slices.ContainsFunc(c.found, func(f signcheck.Finding) bool { return f.Code == signcheck.TimeMilliseconds }):
	case delta < -maxAge:
		c.add(signcheck.TimeExpired.Possible())
	case delta > v.leeway:
		c.add(signcheck.TimeAhead.Found())
	}
}

// sorted returns the result with the findings, certain findings first.
func (c *check) sorted() api.SignatureCheck {
	c.result.Causes = []api.SignatureCause{}
	for _, certain := range []bool{true, false} {
		for _, f := range c.found {
			if f.Certain == certain {
				c.result.Causes = append(c.result.Causes, api.SignatureCause{Code: string(f.Code), Certain: certain, Message: f.Text})
			}
		}
	}
	return c.result
}
