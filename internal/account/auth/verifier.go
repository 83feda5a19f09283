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

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/throttle"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// maxAge is how old a timestamp may be (contract 5.2).
const maxAge = 30

// Options of a Verifier. A zero value means the default.
type Options struct {
	Leeway time.Duration // how far ahead a timestamp may be, in whole seconds; 0
	Now    func() time.Time

	// Failed authentications that one client address may make: so many at once,
	// and so many a second from then on; 1,000 and 100. At 60 us for each that is
	// under a hundredth of a core.
	FailureBurst, FailureRate float64
}

// Verifier checks who made a request. It is safe for concurrent use.
type Verifier struct {
	keys     *keyCache
	watches  *watches
	failures *throttle.Limiter[netip.Addr]
	checks   *throttle.Limiter[netip.Addr]
	dummy    ed25519.PublicKey
	leeway   int64
	now      func() time.Time
}

// NewVerifier makes a Verifier that looks keys up in db.
func NewVerifier(db postgres.DB, opts Options) (*Verifier, error) {
	dummy, _, err := signature.GenerateKey() // its private half is gone: nothing verifies under it
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
		watches:  newWatches(db),
		failures: throttle.NewLimiter[netip.Addr](opts.FailureBurst, opts.FailureRate, opts.Now),
		checks:   throttle.NewLimiter[netip.Addr](checkBurst, checkRate, opts.Now),
		dummy:    dummy,
		leeway:   int64(opts.Leeway / time.Second),
		now:      opts.Now,
	}, nil
}

// Precheck rejects what Verify rejects whatever the body is: a request from an address with
// too many failures, and one whose signing headers are missing or malformed. It returns what
// Verify would, and counts it in the same way.
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

// Verify says who made the request, in the order of decisions 1.8: headers, key,
// signature and key state in one, timestamp. Refusals are *fault.Error
// UNAUTHORIZED with a reason, or RATE_LIMITED for an address with too many of
// them; any other error is one of the look-up.
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

// tooMany is the refusal of an address that failed too often.
func tooMany(wait time.Duration) *fault.Error {
	return &fault.Error{
		Code:       fault.RateLimited,
		Reason:     "failed_authentications",
		Message:    "too many failed authentications from this address",
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
			"the API key is not valid or the signature does not match; compare expectedMessageSha256 with the SHA-256 of the message you signed; POST /v1/sdk/signature-check explains the difference")
		refusal.Extra = map[string]any{"expectedMessageSha256": hex.EncodeToString(sum[:])}
		return Principal{}, refusal, nil
	}
	if refusal := v.inTime(p.at); refusal != nil {
		return Principal{}, refusal, nil
	}
	return key.principal, nil, nil
}

// signed checks the signature over the body as received and, if that fails and
// there is a difference, over the body without white space between its tokens
// (decisions 2.2). message is the latter: the one that the contract describes.
func (v *Verifier) signed(public ed25519.PublicKey, r Request, p proof) (ok bool, message []byte) {
	compact := strictjson.Compact(r.Body)
	message = signature.Message(r.Method, r.Target, p.timestamp, compact)
	if len(compact) != len(r.Body) {
		ok = signature.Verify(public, signature.Message(r.Method, r.Target, p.timestamp, r.Body), p.signature)
	}
	ok = ok || signature.Verify(public, message, p.signature)
	return ok && signature.Signable(r.Method, r.Target, p.timestamp), message
}

// inTime judges the timestamp in whole seconds. Only the owner of the private
// key gets to know these answers.
func (v *Verifier) inTime(at int64) *fault.Error {
	now := v.now()
	delta := at - now.Unix()
	var refusal *fault.Error
	switch {
	case delta < -maxAge:
		refusal = unauthorized(reasonExpired, "the timestamp is %d seconds old; at most %d are allowed", -delta, maxAge)
	case delta > v.leeway:
		refusal = unauthorized(reasonInFuture, "the timestamp is %d seconds ahead of the server's clock", delta)
	default:
		return nil
	}
	refusal.Extra = map[string]any{"serverTime": now, "deltaSeconds": delta}
	return refusal
}
