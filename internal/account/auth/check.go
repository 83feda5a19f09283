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

// Checks of signatures that one client address may make: so many at once, and so many a
// second from then on. At 20 ms for the worst that is a tenth of a core.
const (
	checkBurst = 200
	checkRate  = 5
)

// maxCheckedBody bounds the body of a check: every message that is tried holds it.
const maxCheckedBody = 64 << 10

// Claim is what somebody says that they signed: the fields of the check, the address of
// the client, and the host of the service as the client calls it.
type Claim struct {
	api.SignatureCheckRequest

	Sent   []byte // the whole of what came, whatever members it has
	Client netip.Addr
	Host   string
}

// Check says which message the server would verify for a request, whether its signature
// is good, and what was probably done instead. Of a key it tells what Verify tells: that
// a signature is one of another message learns only who has one made with the key's own
// secret, and unknown, revoked and other keys take the same work. A claim that cannot be
// read is INVALID_INPUT, too many of them are RATE_LIMITED.
func (v *Verifier) Check(ctx context.Context, claim Claim) (api.SignatureCheck, error) {
	source := throttle.Subscriber(claim.Client)
	if wait := v.checks.Take(source); wait > 0 {
		return api.SignatureCheck{}, &fault.Error{
			Code: fault.RateLimited, Reason: "signature_checks", Message: "Too many signature checks from this address.", RetryAfter: wait,
		}
	}
	if wait := v.failures.Wait(source); wait > 0 && claim.whole() {
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
		c.tell(signcheck.PathPrefixed.Possible())
	}
	c.time(v)
	return c.answer(), nil
}

// given is the text of an optional field, "" where it is left out.
func given(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// whole says whether there is all that a verification takes.
func (c Claim) whole() bool { return given(c.Signature) != "" && given(c.APIKey) != "" }

// withoutSecret refuses a claim with an apiSecret anywhere in it: what it holds is shown
// in the answer, and may be in what others can read.
func (c Claim) withoutSecret(body []byte) error {
	for _, field := range []struct{ pointer, text string }{
		{"/signature", given(c.Signature)}, {"/apiKey", given(c.APIKey)}, {"/method", c.Method}, {"/path", c.Path}, {"/timestamp", c.Timestamp},
		{"/body", given(c.Body)}, {"/bodyBase64", string(body)}, {"", string(c.Sent)},
	} {
		if signcheck.Secret(field.text) {
			refusal := fault.Invalid(field.pointer, "This holds the secret of an API key, which must never be sent. Revoke that key.")
			refusal.Reason = "secret_sent"
			return refusal
		}
	}
	return nil
}

func (c Claim) body() ([]byte, error) {
	if c.BodyBase64 == nil {
		return []byte(given(c.Body)), nil
	}
	if c.Body != nil {
		return nil, fault.InvalidAt("/bodyBase64", "must not be given beside body")
	}
	body, err := base64.StdEncoding.DecodeString(*c.BodyBase64)
	if err != nil {
		return nil, fault.InvalidAt("/bodyBase64", "must be standard base64 with padding")
	}
	if len(body) > maxCheckedBody {
		return nil, fault.InvalidAt("/bodyBase64", "must be of at most %d bytes", maxCheckedBody)
	}
	return body, nil
}

// check is one check under way.
type check struct {
	claim           Claim
	request         signcheck.Request
	message, asSent []byte // over the compact body, and over the body as it is
	others          []signcheck.Other
	found           []signcheck.Finding
	agreed          bool // by its hash, the right message was signed
	result          api.SignatureCheck
}

// build makes the messages that the server would take.
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

// compare looks for the message that has the hash.
func (c *check) compare(sum string) {
	if sum == c.result.MessageSha256 || sum == given(c.result.MessageAsSentSha256) {
		c.agreed = true
		return
	}
	for _, other := range c.others {
		if digest(other.Message) == sum {
			c.tell(other.Finding)
			return
		}
	}
	c.tell(signcheck.OtherMessage.Found())
}

// tell notes a finding, unless it was noted.
func (c *check) tell(f signcheck.Finding) {
	if !slices.ContainsFunc(c.found, func(g signcheck.Finding) bool { return g.Code == f.Code }) {
		c.found = append(c.found, f)
	}
}

// verify tries the signature on every message, whatever comes of the first.
func (c *check) verify(ctx context.Context, v *Verifier) error {
	text := given(c.claim.Signature)
	if text == "" {
		return nil
	}
	raw, wrong := signcheck.ReadSignature(text)
	for _, f := range wrong {
		c.tell(f)
	}
	if !c.claim.whole() {
		return nil
	}
	for _, f := range signcheck.ReadKey(*c.claim.APIKey) {
		c.tell(f)
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
		c.tell(*cause)
	case c.agreed:
		c.tell(signcheck.TheKey())
	default:
		c.tell(signcheck.WrongKey.Possible())
	}
	return nil
}

// try says whether sig is that of a message that the server takes, and otherwise by which
// mistake it came about, nil if by none that is known.
func (c *check) try(public ed25519.PublicKey, sig []byte) (good bool, cause *signcheck.Finding) {
	asSent, compact := signature.Verify(public, c.asSent, sig), signature.Verify(public, c.message, sig)
	for _, other := range c.others {
		if signature.Verify(public, other.Message, sig) && cause == nil {
			cause = &other.Finding
		}
	}
	return asSent || compact, cause
}

// time judges the timestamp by the server's clock.
func (c *check) time(v *Verifier) {
	now := v.now()
	c.result.ServerTime = timestamp.Of(now)
	at, ok := readTimestamp([]string{c.request.Timestamp})
	if !ok {
		c.tell(signcheck.TimeMalformed.Found())
		return
	}
	delta := at - now.Unix()
	c.result.DeltaSeconds = &delta
	switch {
	case slices.ContainsFunc(c.found, func(f signcheck.Finding) bool { return f.Code == signcheck.TimeMilliseconds }):
	case delta < -maxAge:
		c.tell(signcheck.TimeExpired.Possible())
	case delta > v.leeway:
		c.tell(signcheck.TimeAhead.Found())
	}
}

// answer is the result with what was found, what is certain first.
func (c *check) answer() api.SignatureCheck {
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
