package auth_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// golden holds the vectors of package signature: requests, and their signatures from Node.
type golden struct {
	APISecret string
	Requests  []struct{ Name, Method, Target, Timestamp, Body, SignedBody string }
	Made      []struct{ Signature string }
}

func load(t *testing.T) golden {
	t.Helper()
	var all golden
	var made struct {
		Requests []struct{ Signature string }
	}
	for file, into := range map[string]any{"requests.json": &all, "vectors-node.json": &made} {
		text, err := os.ReadFile("../../secret/signature/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	all.Made = made.Requests
	return all
}

// useVectorKey replaces the public key of the bundle with the public key of the vectors.
func (b *bundle) useVectorKey(t *testing.T, secret string) {
	t.Helper()
	private, err := signature.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	public := []byte(private.Public().(ed25519.PublicKey))
	if _, err := b.pool.Exec(t.Context(), "UPDATE api_keys SET public_key = $1 WHERE id = $2", public, b.key.KeyID); err != nil {
		t.Fatal(err)
	}
}

// Every golden request is accepted as sent, compact or with white space. The golden requests
// include the endpoints of AU-01.
func TestAU05SamplesAreAccepted(t *testing.T) {
	b, all := setup(t, auth.Options{}), load(t)
	b.useVectorKey(t, all.APISecret)
	for i, r := range all.Requests {
		at, _ := strconv.ParseInt(r.Timestamp, 10, 64)
		b.clock = time.Unix(at, 0)
		request := auth.Request{
			Method: r.Method, Target: r.Target, Body: []byte(r.Body), Client: home,
			Header: http.Header{
				"X-Api-Key": {b.key.APIKey}, "X-Sdk-Timestamp": {r.Timestamp}, "X-Sdk-Signature": {all.Made[i].Signature},
			},
		}
		if got := verify(t, b.verifier, request); got != "" {
			t.Errorf("%s: %s", r.Name, got)
		}
	}
}

func TestAU02Timestamps(t *testing.T) {
	b := setup(t, auth.Options{})
	lenient, err := auth.NewVerifier(b.pool, auth.Options{Leeway: 2 * time.Second, Now: func() time.Time { return b.clock }})
	if err != nil {
		t.Fatal(err)
	}
	now := b.clock.Unix()
	second := func(delta int64) []string { return []string{strconv.FormatInt(now+delta, 10)} }
	cases := []struct {
		name         string
		values       []string
		want, leeway string // without and with a leeway of 2 s
	}{
		{"-31 s", second(-31), "timestamp_expired", "timestamp_expired"},
		{"-30 s", second(-30), "", ""},
		{"-1 s", second(-1), "", ""},
		{"0 s", second(0), "", ""},
		{"+1 s", second(1), "timestamp_in_future", ""},
		{"+2 s", second(2), "timestamp_in_future", ""},
		{"+3 s", second(3), "timestamp_in_future", "timestamp_in_future"},
		{"+31 s", second(31), "timestamp_in_future", "timestamp_in_future"},
		{"milliseconds", []string{strconv.FormatInt(now*1000, 10)}, "timestamp_in_future", "timestamp_in_future"},
		{"zero", []string{"0"}, "timestamp_expired", "timestamp_expired"},
		{"plus sign", []string{"+" + second(0)[0]}, "malformed_timestamp", "malformed_timestamp"},
		{"blank before", []string{" " + second(0)[0]}, "malformed_timestamp", "malformed_timestamp"},
		{"blank after", []string{second(0)[0] + " "}, "malformed_timestamp", "malformed_timestamp"},
		{"leading zero", []string{"0" + second(0)[0]}, "malformed_timestamp", "malformed_timestamp"},
		{"05", []string{"05"}, "malformed_timestamp", "malformed_timestamp"},
		{"hex", []string{"0x6918" + "4eaa"}, "malformed_timestamp", "malformed_timestamp"},
		{"20 digits", []string{"17952576000000000000"}, "malformed_timestamp", "malformed_timestamp"},
		{"negative", second(-2 * now), "malformed_timestamp", "malformed_timestamp"},
		{"fraction", []string{second(0)[0] + ".5"}, "malformed_timestamp", "malformed_timestamp"},
		{"underscore", []string{"1_795_257_600"}, "malformed_timestamp", "malformed_timestamp"},
		{"other digits", []string{"١٧٩٥٢٥٧٦٠٠"}, "malformed_timestamp", "malformed_timestamp"},
		{"missing", nil, "missing_timestamp", "missing_timestamp"},
		{"empty", []string{""}, "missing_timestamp", "missing_timestamp"},
		{"two headers", append(second(0), second(0)...), "malformed_timestamp", "malformed_timestamp"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			request := b.key.get(b.clock)
			request.Header["X-Sdk-Timestamp"] = c.values
			if len(c.values) > 0 {
				message := signature.Message(request.Method, request.Target, c.values[0], nil)
				request.Header.Set("X-Sdk-Signature", signature.Format(signature.Sign(b.key.private, message)))
			}
			if got := verify(t, b.verifier, request); got != c.want {
				t.Errorf("reason %q, want %q", got, c.want)
			}
			if got := verify(t, lenient, request); got != c.leeway {
				t.Errorf("with leeway: reason %q, want %q", got, c.leeway)
			}
		})
	}
}

func TestAU02RefusedTimestampsReturnTheServersTime(t *testing.T) {
	b := setup(t, auth.Options{})
	_, err := b.verifier.Verify(t.Context(), b.key.get(b.clock.Add(-42*time.Second)))
	refusal, _ := errors.AsType[*fault.Error](err)
	want := map[string]any{"serverTime": b.clock, "deltaSeconds": int64(-42)}
	if refusal == nil || !maps.Equal(refusal.Extra, want) {
		t.Errorf("%#v", err)
	}
	// A client without the private key learns nothing about the clock.
	stranger := b.key.get(b.clock.Add(-42 * time.Second))
	stranger.Header.Set("X-Sdk-Signature", signature.Format(make([]byte, 64)))
	if got := verify(t, b.verifier, stranger); got != "invalid_credentials" {
		t.Errorf("reason %q", got)
	}
}

func TestAU03OneFlippedBitIsRefused(t *testing.T) {
	b := setup(t, auth.Options{})
	random := rand.New(rand.NewPCG(3, 4))
	body := `{"module":"HASH","input":{"data":"x"},"config":{}}`
	for i := range 2000 { // package signature flips 10,000
		r := b.key.sign(b.clock, "POST", "/v1/sdk/components?b=2", body, body)
		if i == 0 && verify(t, b.verifier, r) != "" {
			t.Fatal("the untouched request is refused")
		}
		want := []string{"invalid_credentials"}
		switch i % 5 {
		case 0:
			r.Method = flip(random, r.Method)
		case 1:
			r.Target = flip(random, r.Target)
		case 2:
			r.Header.Set("X-Sdk-Timestamp", flip(random, r.Header.Get("X-Sdk-Timestamp")))
			want = append(want, "malformed_timestamp")
		case 3:
			r.Body = []byte(flip(random, body))
		case 4:
			sig, _ := signature.ParseSignature(r.Header.Get("X-Sdk-Signature"))
			r.Header.Set("X-Sdk-Signature", signature.Format([]byte(flip(random, string(sig)))))
		}
		_, err := b.verifier.Verify(t.Context(), r)
		if got := reason(t, err); !slices.Contains(want, got) {
			t.Fatalf("reason %q for %+v", got, r)
		} else if got == "invalid_credentials" {
			sameAnswer(t, err, signature.Message(r.Method, r.Target, r.Header.Get("X-Sdk-Timestamp"), strictjson.Compact(r.Body)))
		}
	}
}

func flip(random *rand.Rand, text string) string {
	bytes := []byte(text)
	bytes[random.IntN(len(bytes))] ^= 1 << random.IntN(8)
	return string(bytes)
}

// theAnswer is the response to an unknown key, to a revoked key and to a wrong signature. The
// responses differ only in the digest, which is the digest of the caller's own request.
var theAnswer = fault.Error{
	Code: fault.Unauthorized, Reason: "invalid_credentials",
	Message: "The API key is invalid, or the signature doesn't match. Compare expectedMessageSha256 with the SHA-256 of the message that you signed. POST /v1/sdk/signature-check explains the difference.",
	Header:  map[string]string{"WWW-Authenticate": `Weft-Signature headers="X-Api-Key X-Sdk-Timestamp X-Sdk-Signature"`},
}

func sameAnswer(t *testing.T, err error, message []byte) {
	t.Helper()
	sum, want := sha256.Sum256(message), theAnswer
	want.Extra = map[string]any{"expectedMessageSha256": hex.EncodeToString(sum[:])}
	if got, ok := errors.AsType[*fault.Error](err); !ok || !reflect.DeepEqual(*got, want) {
		t.Fatalf("answer %#v, want %#v", err, want)
	}
}

func TestAU04ASignatureIsValidOnlyForTheTargetAsSent(t *testing.T) {
	b := setup(t, auth.Options{})
	for _, target := range []string{
		"//v1/sdk/components", "/v1/./sdk/components", "/v1/%2e/sdk/components", "/v1/sdk%2Fcomponents",
		"/v1/sdk/components/", "/V1/sdk/components", "/v1/sdk/components?", "/v1/sdk/components#",
		"http://example.test/v1/sdk/components", "/v1/sdk/comp\u00f6nents", "/v1/sdk/components|1",
	} {
		r := b.key.sign(b.clock, "GET", "/v1/sdk/components", "", "")
		r.Target = target
		if got := verify(t, b.verifier, r); got != "invalid_credentials" {
			t.Errorf("%s with the signature of another target: %q", target, got)
		}
	}
	// A target that could shift the boundaries of the message is rejected even if it is signed.
	for _, target := range []string{"/v1/sdk/components|1", "/v1/sdk/comp\u00f6nents", "http://example.test/v1"} {
		if got := verify(t, b.verifier, b.key.sign(b.clock, "GET", target, "", "")); got != "invalid_credentials" {
			t.Errorf("%s: %q", target, got)
		}
	}
}

func TestAU06BodiesAreCheckedAfterTheSignature(t *testing.T) {
	b := setup(t, auth.Options{})
	for _, body := range []string{
		`{"a":1,"a":2}`, "\uFEFF{}", "\xFF\xFE{\x00}\x00", "{\"a\":\"\xC3\x28\"}", `{}x`, `{} {}`, "\x1f\x8b\x08\x00", " ",
	} {
		if got := verify(t, b.verifier, b.key.sign(b.clock, "POST", "/v1/sdk/components", body, body)); got != "" {
			t.Errorf("%q, correctly signed: %q", body, got)
		}
		if strictjson.Check([]byte(body)) == nil {
			t.Errorf("%q passes the JSON check", body)
		}
	}
}

func TestAU07SignatureHeaders(t *testing.T) {
	b := setup(t, auth.Options{})
	right := b.key.get(b.clock).Header.Get("X-Sdk-Signature")
	cases := []struct {
		name   string
		values []string
		want   string
	}{
		{"missing", nil, "missing_signature"},
		{"empty", []string{""}, "missing_signature"},
		{"two headers", []string{right, right}, "malformed_signature"},
		{"no padding", []string{strings.TrimRight(right, "=")}, "malformed_signature"},
		{"URL-safe alphabet", []string{strings.Repeat("_", 86) + "=="}, "malformed_signature"},
		{"white space inside", []string{right[:40] + " " + right[41:]}, "malformed_signature"},
		{"63 bytes", []string{strings.Repeat("A", 84)}, "malformed_signature"},
		{"65 bytes", []string{strings.Repeat("A", 87) + "="}, "malformed_signature"},
		{"all zero", []string{signature.Format(make([]byte, 64))}, "invalid_credentials"},
		{"S beyond the order", []string{right[:43] + strings.Repeat("/", 42) + "w=="}, "invalid_credentials"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			request := b.key.get(b.clock)
			request.Header["X-Sdk-Signature"] = c.values
			if got := verify(t, b.verifier, request); got != c.want {
				t.Errorf("reason %q, want %q", got, c.want)
			}
		})
	}
}

func TestKeyHeader(t *testing.T) {
	b := setup(t, auth.Options{})
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"missing":     {nil, "missing_api_key"},
		"empty":       {[]string{""}, "missing_api_key"},
		"two headers": {[]string{b.key.APIKey, b.key.APIKey}, "missing_api_key"},
		"unknown":     {[]string{"ws_unknown"}, "invalid_credentials"},
		"no prefix":   {[]string{strings.TrimPrefix(b.key.APIKey, "ws_")}, "invalid_credentials"},
		"long":        {[]string{strings.Repeat("k", 8000)}, "invalid_credentials"},
	} {
		request := b.key.get(b.clock)
		request.Header["X-Api-Key"] = c.values
		if got := verify(t, b.verifier, request); got != c.want {
			t.Errorf("%s: reason %q, want %q", name, got, c.want)
		}
	}
}

func TestAU08SignaturesOfOtherKeysAreRefused(t *testing.T) {
	b := setup(t, auth.Options{})
	other := b.newKey(t, b.newWorkspace(t))
	sibling := b.newKey(t, b.workspace)
	for name, private := range map[string]ed25519.PrivateKey{
		"of another workspace": other.private, "of the same workspace": sibling.private, "of another deployment": ed25519.NewKeyFromSeed(make([]byte, 32)),
	} {
		mixed := signer{b.key.Created, private}.get(b.clock)
		if got := verify(t, b.verifier, mixed); got != "invalid_credentials" {
			t.Errorf("key %s: %q", name, got)
		}
	}
}
