package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/signature"
)

const secret = "correct-horse-battery"

func made(t *testing.T, given api.NewVerification) api.Verification {
	t.Helper()
	given.Secret = new(secret)
	v, _, err := check(&given, secrets{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// digest returns the HMAC of these bytes with the secret as its key.
func digest(algorithm func() hash.Hash, secret string, text []byte) []byte {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write(text)
	return mac.Sum(nil)
}

func TestSignatureIsVerifiedOverTheBytes(t *testing.T) {
	body := []byte(`{"x": 1}`)
	right := hex.EncodeToString(digest(sha256.New, secret, body))
	github := api.NewVerification{Header: new("X-Hub-Signature-256"), Prefix: new("sha256=")}
	base := api.NewVerification{Header: new("X-Mac"), Encoding: new(api.VerificationEncodingBase64), Algorithm: new(api.VerificationAlgorithmSha512)}
	long := base64.StdEncoding.EncodeToString(digest(sha512.New, secret, body))
	for name, c := range map[string]struct {
		verification api.NewVerification
		header       http.Header
		body         string
		want         bool
	}{
		"right":                {github, http.Header{"X-Hub-Signature-256": {"sha256=" + right}}, `{"x": 1}`, true},
		"in upper case":        {github, http.Header{"X-Hub-Signature-256": {"sha256=" + strings.ToUpper(right)}}, `{"x": 1}`, true},
		"another body":         {github, http.Header{"X-Hub-Signature-256": {"sha256=" + right}}, `{"x":1}`, false},
		"no prefix":            {github, http.Header{"X-Hub-Signature-256": {right}}, `{"x": 1}`, false},
		"nothing but it":       {github, http.Header{"X-Hub-Signature-256": {"sha256="}}, `{"x": 1}`, false},
		"cut":                  {github, http.Header{"X-Hub-Signature-256": {"sha256=" + right[:32]}}, `{"x": 1}`, false},
		"not hex":              {github, http.Header{"X-Hub-Signature-256": {"sha256=" + right[:63] + "g"}}, `{"x": 1}`, false},
		"twice":                {github, http.Header{"X-Hub-Signature-256": {"sha256=" + right, "sha256=" + right}}, `{"x": 1}`, true},
		"none":                 {github, http.Header{}, `{"x": 1}`, false},
		"base64, sha512":       {base, http.Header{"X-Mac": {long}}, `{"x": 1}`, true},
		"base64 without its =": {base, http.Header{"X-Mac": {strings.TrimRight(long, "=")}}, `{"x": 1}`, true},
		"the other algorithm":  {base, http.Header{"X-Mac": {base64.StdEncoding.EncodeToString(digest(sha256.New, secret, body))}}, `{"x": 1}`, false},
	} {
		if got := verify(made(t, c.verification), secrets{current: secret}, c.header, []byte(c.body), time.Now()) == ""; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRejectedStandardWebhookHasItsReason(t *testing.T) {
	v := made(t, api.NewVerification{Scheme: new(api.VerificationSchemeStandardWebhooks)})
	now, body := time.Unix(1795256130, 0), []byte("{}")
	at := func(at time.Time, secret string) http.Header {
		return http.Header{"Webhook-Id": {"a"}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature.StandardWebhook(secret, "a", at, body)}}
	}
	for want, header := range map[string]http.Header{
		"": at(now, secret), missingSignature: {}, malformedSignature: {"Webhook-Id": {"a"}}, invalidSignature: at(now, "another-secret"),
		timestampExpired: at(now.Add(-6*time.Minute), secret), timestampInFuture: at(now.Add(6*time.Minute), secret),
	} {
		if got := verify(v, secrets{current: secret}, header, body, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What counts is the key of the HMAC: for Standard Webhooks, the bytes that whsec_ encodes.
func TestShortKeysAreReported(t *testing.T) {
	encoded := func(length int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", length)))
	}
	hmac, standard := api.VerificationSchemeHmac, api.VerificationSchemeStandardWebhooks
	for _, c := range []struct {
		scheme api.VerificationScheme
		secret string
		want   int
	}{
		{hmac, strings.Repeat("k", 31), 1}, {hmac, strings.Repeat("k", 32), 0}, {hmac, encoded(20), 0},
		{standard, strings.Repeat("k", 31), 1}, {standard, strings.Repeat("k", 32), 0},
		{standard, encoded(20), 1}, {standard, encoded(31), 1}, {standard, encoded(32), 0},
	} {
		if got := warningsOf(api.Verification{Scheme: c.scheme}, c.secret); len(got) != c.want {
			t.Errorf("%s, %s: %+v", c.scheme, c.secret, got)
		}
	}
}

func TestStandardWebhooksSecretMustBeValid(t *testing.T) {
	for _, wrong := range []string{"whsec_correct-horse", "whsec_", "whsec_YQ", "whsec_YWI-"} {
		given := api.NewVerification{Scheme: new(api.VerificationSchemeStandardWebhooks), Secret: &wrong}
		_, _, err := check(&given, secrets{}, "")
		refused, ok := errors.AsType[*fault.Error](err)
		if !ok || refused.Code != fault.InvalidInput || refused.Details[0].Pointer != "/verification/secret" || !strings.Contains(refused.Details[0].Message, "base64") {
			t.Errorf("%s: %v", wrong, err)
		}
		given = api.NewVerification{Secret: &wrong, Header: new("X-Mac")}
		if _, _, err := check(&given, secrets{}, ""); err != nil {
			t.Errorf("%s as the text of an HMAC: %v", wrong, err)
		}
	}
}

// A secret that was stored before its form was checked remains usable, but not with another scheme.
func TestKeptSecretMustSuitANewScheme(t *testing.T) {
	hmac, standard := api.VerificationSchemeHmac, api.VerificationSchemeStandardWebhooks
	for _, c := range []struct {
		from api.VerificationScheme
		kept string
		want fault.Code
	}{{hmac, "whsec_correct-horse", fault.InvalidInput}, {standard, "whsec_correct-horse", ""}, {hmac, secret, ""}} {
		if _, _, err := check(&api.NewVerification{Scheme: &standard}, secrets{current: c.kept}, c.from); fault.CodeOf(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("%s from %s: got %v, want %q", c.kept, c.from, err, c.want)
		}
	}
}

// A hook accepts Weft's own callbacks, if their timestamps are within five minutes of the hook's
// clock.
func TestStandardWebhooksDeliveryIsVerified(t *testing.T) {
	v := made(t, api.NewVerification{Scheme: new(api.VerificationSchemeStandardWebhooks)})
	now := time.Unix(1795256130, 0)
	body := []byte(`{"x":1}`)
	for _, secret := range []string{secret, "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret))} {
		for name, c := range map[string]struct {
			id, at, signature string
			want              bool
		}{
			"right":             {"a", "1795256130", signature.StandardWebhook(secret, "a", now, body), true},
			"one of several":    {"a", "1795256130", "v1,eA== v2,x " + signature.StandardWebhook(secret, "a", now, body), true},
			"five minutes old":  {"a", "1795255830", signature.StandardWebhook(secret, "a", now.Add(-5*time.Minute), body), true},
			"older":             {"a", "1795255829", signature.StandardWebhook(secret, "a", now.Add(-301*time.Second), body), false},
			"of the future":     {"a", "1795256431", signature.StandardWebhook(secret, "a", now.Add(301*time.Second), body), false},
			"another id":        {"b", "1795256130", signature.StandardWebhook(secret, "a", now, body), false},
			"no id":             {"", "1795256130", signature.StandardWebhook(secret, "", now, body), false},
			"another time":      {"a", "1795256131", signature.StandardWebhook(secret, "a", now, body), false},
			"a time with zeros": {"a", "01795256130", signature.StandardWebhook(secret, "a", now, body), false},
			"no time":           {"a", "now", signature.StandardWebhook(secret, "a", now, body), false},
			"no version":        {"a", "1795256130", strings.TrimPrefix(signature.StandardWebhook(secret, "a", now, body), "v1,"), false},
			"nothing":           {"a", "1795256130", "", false},
		} {
			header := http.Header{}
			header.Set(standardID, c.id)
			header.Set(standardAt, c.at)
			header.Set(standardSignature, c.signature)
			if got := verify(v, secrets{current: secret}, header, body, now) == ""; got != c.want {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
}

// FuzzVerified checks that verification never panics, and that no fuzzed header is accepted as a
// valid signature.
func FuzzVerified(f *testing.F) {
	f.Add("sha256=00", "1", "v1,x", "a")
	f.Add("sha256="+strings.Repeat("0", 64), strconv.FormatInt(1<<40, 10), "v1,"+strings.Repeat("A", 44), "")
	f.Fuzz(func(t *testing.T, mac, at, list, id string) {
		header := http.Header{"X-Mac": {mac}, "Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {list}}
		for _, v := range []api.Verification{
			{Scheme: api.VerificationSchemeHmac, Header: "X-Mac", Prefix: "sha256=", Algorithm: api.VerificationAlgorithmSha256, Encoding: api.VerificationEncodingHex},
			{Scheme: api.VerificationSchemeHmac, Header: "X-Mac", Encoding: api.VerificationEncodingBase64, Algorithm: api.VerificationAlgorithmSha512},
			{Scheme: api.VerificationSchemeStandardWebhooks},
		} {
			if verify(v, secrets{current: secret}, header, []byte("body"), time.Unix(0, 0)) == "" {
				t.Fatalf("%+v is right for %s", header, v.Scheme)
			}
		}
	})
}

func TestInputOfARun(t *testing.T) {
	v := made(t, api.NewVerification{Header: new("X-Proof")})
	header := http.Header{
		"Content-Type": {"application/json"}, "X-Proof": {"00"}, "Authorization": {"Bearer x"}, "Proxy-Authorization": {"x"}, "Cookie": {"x"}, "X-Shopify-Hmac-Sha256": {"x"},
		"X-Gitlab-Token": {"x"}, "Webhook-Signature": {"v1,x"}, "X-Api-Key": {"x"}, "X-Event": {"a", "b"}, "X-Bytes": {"\xff"},
	}
	raw, err := inputOf(v, header, []byte(`{"n":12345678901234567890}`))
	if want := `{"body":{"n":12345678901234567890},"headers":{"content-type":"application/json","x-event":"a, b"},"query":{}}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
	if _, err := inputOf(v, http.Header{}, []byte(strings.Repeat("\x01", 1<<20))); err == nil {
		t.Error("a body that grows to 6 MiB was accepted")
	}
}

// FuzzRunInput checks that any request produces either an error, or an input that can be stored
// and contains no signature.
func FuzzRunInput(f *testing.F) {
	f.Add("application/json", "X-Event", "push", []byte(`{"a":[1,{"b":null}]}`))
	f.Add("application/ld+json; charset=utf-8", "X-Proof", "secret", []byte(`{"a":1,"a":2}`))
	f.Add("text/plain", "Cookie", "\xff", []byte("a\x00b"))
	f.Add("x;;=", "A", "", []byte(`"\ud800"`))
	named := regexp.MustCompile(`^[A-Za-z0-9-]+$`) // the names that net/http accepts
	f.Fuzz(func(t *testing.T, contentType, name, value string, body []byte) {
		if !named.MatchString(name) {
			return
		}
		raw, err := inputOf(api.Verification{Header: "X-Proof"}, http.Header{"Content-Type": {contentType}, name: {value}}, body)
		if err != nil {
			return
		}
		if err := strictjson.Check(raw); err != nil {
			t.Errorf("%q cannot be stored: %v", raw, err)
		}
		var given struct{ Headers map[string]string }
		if err := json.Unmarshal(raw, &given); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
		for _, proof := range []string{"x-proof", "cookie", "authorization"} {
			if given.Headers[proof] != "" {
				t.Errorf("%s is in %q", proof, raw)
			}
		}
	})
}

// The secret, the body and the signature are the example in GitHub's documentation (Validating
// webhook deliveries, Testing the webhook payload validation). ON_WEBHOOK starts a run for such a
// delivery.
func TestGitHubExampleIsVerified(t *testing.T) {
	t.Parallel()
	const key, mac = "It's a Secret to Everybody", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	v := made(t, api.NewVerification{Header: new("X-Hub-Signature-256"), Prefix: new("sha256=")})
	for body, want := range map[string]bool{"Hello, World!": true, "Hello, World": false} {
		if got := verify(v, secrets{current: key}, http.Header{"X-Hub-Signature-256": {mac}}, []byte(body), time.Now()) == ""; got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// The secret, the message and the signature are from the reference implementations of Standard
// Webhooks (github.com/standard-webhooks/standard-webhooks, libraries, the test of sign).
// ON_WEBHOOK starts a run for such a delivery.
func TestStandardWebhooksExampleIsVerified(t *testing.T) {
	t.Parallel()
	v := made(t, api.NewVerification{Scheme: new(api.VerificationSchemeStandardWebhooks)})
	header := http.Header{}
	header.Set(standardID, "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set(standardAt, "1614265330")
	header.Set(standardSignature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	for body, want := range map[string]bool{`{"test": 2432232314}`: true, `{"test":2432232314}`: false} {
		if got := verify(v, secrets{current: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, header, []byte(body), time.Unix(1614265330, 0)) == ""; got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
