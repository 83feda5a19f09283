package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/weft-automation/weft/internal/account/revocation"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// maxAge is the maximum age of a timestamp, in seconds (contract 5.2).
const maxAge = 30

// Options of a Verifier. A zero value means the default.
type Options struct {
	Leeway time.Duration // how far ahead a timestamp may be, in whole seconds; default 0
	Now    func() time.Time

	// Failed authentications per client address: a burst and a rate per second, by default
	// 1,000 and 100. At 60 us each, the rate amounts to less than a hundredth of a core.
	FailureBurst, FailureRate float64
}

// Verifier authenticates requests. It is safe for concurrent use.
type Verifier struct {
	keys     *keyCache
	watched  *revocation.Watch[watchedKey] // with open streams
	failures *throttle.Limiter[netip.Addr]
	checks   *throttle.Limiter[netip.Addr]
	dummy    ed25519.PublicKey
	leeway   int64
	now      func() time.Time
}

// NewVerifier returns a Verifier that looks up keys in db.
func NewVerifier(db postgres.DB, opts Options) (*Verifier, error) {
	dummy, _, err := signature.GenerateKey() // its private key is dropped: no signature verifies with it
	if err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.FailureBurst == 0 {
		opts.FailureBurst = 1000
	}
	if opts.FailureRate == 0 {
		opts.FailureRate = 100
	}
	return &Verifier{
		keys:     newKeyCache(db, opts.Now),
		watched:  watchKeys(db),
		failures: throttle.NewLimiter[netip.Addr](opts.FailureBurst, opts.FailureRate, opts.Now),
		checks:   throttle.NewLimiter[netip.Addr](checkBurst, checkRate, opts.Now),
		dummy:    dummy,
		leeway:   int64(opts.Leeway / time.Second),
		now:      opts.Now,
	}, nil
}

// Precheck rejects requests that Verify would reject with any body: requests from an address
// with too many failures, and requests whose signing headers are missing or malformed. It
// returns the errors that Verify would return, and counts failures in the same way.
func (v *Verifier) Precheck(header http.Header, client netip.Addr) error {
	source := throttle.Subscriber(client)
	if wait := v.failures.Wait(source); wait > 0 {
		return tooMany(wait)
	}
	if _, refusal := readProof(header); refusal != nil {
		v.failures.Count(source)
		return refusal
	}
	return nil
}

// Verify authenticates a request and returns its key. It checks, in the order of decisions
// 1.8: the headers, then the key, its state and the signature in one step, then the
// timestamp. It returns UNAUTHORIZED with a reason, RATE_LIMITED for an address with too
// many failures, or the error of a failed look-up.
func (v *Verifier) Verify(ctx context.Context, r Request) (Principal, error) {
	if wait := v.failures.Wait(throttle.Subscriber(r.Client)); wait > 0 {
		return Principal{}, tooMany(wait)
	}
	principal, refusal, err := v.verify(ctx, r)
	if err != nil {
		return Principal{}, err
	}
	if refusal != nil {
		v.failures.Count(throttle.Subscriber(r.Client))
		return Principal{}, refusal
	}
	return principal, nil
}

// tooMany returns the error for an address with too many failures.
func tooMany(wait time.Duration) *fault.Error {
	return &fault.Error{
		Code:       fault.RateLimited,
		Reason:     "failed_authentications",
		Message:    "Too many failed authentications from this address.",
		RetryAfter: wait,
	}
}

func (v *Verifier) verify(ctx context.Context, r Request) (Principal, *fault.Error, error) {
	p, refusal := readProof(r.Header)
	if refusal != nil {
		return Principal{}, refusal, nil
	}
	key, err := v.keys.find(ctx, sha256.Sum256([]byte(p.key)))
	if err != nil {
		return Principal{}, nil, fmt.Errorf("look up API key: %w", err)
	}
	public := v.dummy
	if key.known {
		public = key.public
	}
	signed, message := v.signed(public, r, p)
	if !signed || !key.known || key.over {
		sum := sha256.Sum256(message)
		refusal := unauthorized(reasonInvalid,
			"The API key is invalid, or the signature doesn't match. Compare expectedMessageSha256 with the SHA-256 of the message that you signed. POST /v1/sdk/signature-check explains the difference.")
		refusal.Extra = map[string]any{"expectedMessageSha256": hex.EncodeToString(sum[:])}
		return Principal{}, refusal, nil
	}
	if refusal := v.inTime(p.at); refusal != nil {
		return Principal{}, refusal, nil
	}
	return key.principal, nil, nil
}

// signed verifies the signature over the body as received. If the verification fails and the
// body has white space between its tokens, signed also tries the compact body (decisions 2.2).
// message contains the compact body, which the contract describes.
func (v *Verifier) signed(public ed25519.PublicKey, r Request, p proof) (ok bool, message []byte) {
	compact := strictjson.Compact(r.Body)
	message = signature.Message(r.Method, r.Target, p.timestamp, compact)
	if len(compact) != len(r.Body) {
		ok = signature.Verify(public, signature.Message(r.Method, r.Target, p.timestamp, r.Body), p.signature)
	}
	ok = ok || signature.Verify(public, message, p.signature)
	return ok && signature.Signable(r.Method, r.Target, p.timestamp), message
}

// inTime checks the timestamp in whole seconds. It is called for valid signatures only, so
// only the key's owner learns about the server's clock.
func (v *Verifier) inTime(at int64) *fault.Error {
	now := v.now()
	delta := at - now.Unix()
	var refusal *fault.Error
	switch {
	case delta < -maxAge:
		refusal = unauthorized(reasonExpired, "The timestamp is %d seconds old. The maximum is %d.", -delta, maxAge)
	case delta > v.leeway:
		refusal = unauthorized(reasonInFuture, "The timestamp is %d seconds ahead of the server's clock.", delta)
	default:
		return nil
	}
	refusal.Extra = map[string]any{"serverTime": now, "deltaSeconds": delta}
	return refusal
}
