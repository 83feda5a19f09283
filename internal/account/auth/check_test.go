package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// claim returns the check for a client that signs signedTarget and signedBody but sends target and body.
func (b *bundle) claim(s signer, method, target, body, signedTarget, signedBody string) auth.Claim {
	timestamp := strconv.FormatInt(b.clock.Unix(), 10)
	sig := signature.Format(signature.Sign(s.private, []byte(method+"|"+signedTarget+"|"+timestamp+"|"+signedBody)))
	return auth.Claim{Client: home, Host: "weft.example", SignatureCheckRequest: api.SignatureCheckRequest{
		Method: method, Path: target, Timestamp: timestamp, Body: &body, Signature: &sig, APIKey: &s.APIKey,
	}}
}

func (b *bundle) check(t *testing.T, claim auth.Claim) api.SignatureCheck {
	t.Helper()
	result, err := b.verifier.Check(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func causes(result api.SignatureCheck) string {
	var all []string
	for _, c := range result.Causes {
		if text := c.Code; c.Certain {
			all = append(all, text)
		} else {
			all = append(all, text+"?")
		}
	}
	return strings.Join(all, " ")
}

func TestCheckReturnsTheServersMessage(t *testing.T) {
	b := setup(t, auth.Options{})
	body := "{\n \"a\": \"é\"\n}"
	claim := b.claim(b.key, "POST", "/v1/sdk/components", body, "/v1/sdk/components", `{"a":"é"}`)
	timestamp := claim.Timestamp
	want := "POST|/v1/sdk/components|" + timestamp + `|{"a":"é"}`
	asSent := sha256.Sum256([]byte("POST|/v1/sdk/components|" + timestamp + "|" + body))
	sum := sha256.Sum256([]byte(want))
	got := b.check(t, claim)
	if *got.Message != want || got.MessageBase64 != base64.StdEncoding.EncodeToString([]byte(want)) || int(got.MessageLength) != len(want) ||
		got.MessageSha256 != hex.EncodeToString(sum[:]) || *got.MessageAsSentSha256 != hex.EncodeToString(asSent[:]) || !*got.SignatureValid ||
		*got.DeltaSeconds != 0 || causes(got) != "" || got.Causes == nil {
		t.Errorf("%+v, %s", got, causes(got))
	}
	// The response to the same request with a different signature contains the same hash.
	r := b.key.sign(b.clock, "POST", "/v1/sdk/components", body, "{}")
	_, err := b.verifier.Verify(t.Context(), r)
	refusal, _ := errors.AsType[*fault.Error](err)
	if refusal == nil || refusal.Extra["expectedMessageSha256"] != got.MessageSha256 {
		t.Errorf("the verifier returned %v", err)
	}
	raw := "\xff"
	claim.Body, claim.BodyBase64, claim.Signature = nil, new(base64.StdEncoding.EncodeToString([]byte(raw))), nil
	if got := b.check(t, claim); got.Message != nil || got.MessageLength != int32(len("POST|/v1/sdk/components|"+timestamp+"|"+raw)) || got.SignatureValid != nil {
		t.Errorf("a body that isn't UTF-8: %+v", got)
	}
	empty := ""
	claim.Body, claim.BodyBase64 = &empty, nil
	if got := b.check(t, claim); *got.Message != "POST|/v1/sdk/components|"+timestamp+"|{}" || got.MessageAsSentSha256 != nil {
		t.Errorf("no body: %+v", got)
	}
}

func TestACheckNamesTheMistake(t *testing.T) {
	b := setup(t, auth.Options{})
	const path = "/v1/sdk/components"
	stranger := b.newKey(t, b.newWorkspace(t))
	sum := func(text string) *string {
		sum := sha256.Sum256([]byte(text))
		return new(hex.EncodeToString(sum[:]))
	}
	for _, c := range []struct {
		name  string
		claim auth.Claim
		alter func(*auth.Claim)
		valid *bool
		want  string
	}{
		{"right", b.claim(b.key, "GET", path+"?limit=1", "", path+"?limit=1", "{}"), nil, new(true), ""},
		{"path without query", b.claim(b.key, "GET", path+"?limit=1", "", path, "{}"), nil, new(false), "path_without_query"},
		{"serialized again", b.claim(b.key, "POST", path, `{"a":1,"b":[2]}`, path, `{"a": 1, "b": [2]}`), nil, new(false), "body_serialized_again"},
		{"escapes", b.claim(b.key, "POST", path, `{"a":"é"}`, path, `{"a":"\u00e9"}`), nil, new(false), "body_escapes"},
		{"empty body", b.claim(b.key, "GET", path, "", path, ""), nil, new(false), "empty_body_not_braces"},
		{"milliseconds", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.Timestamp += "000" }, new(false), "timestamp_in_milliseconds"},
		{"URL-safe base64", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature = new(strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(*c.Signature))
		}, new(false), ""},
		{"id of a key", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.APIKey = new("01a2008b-1ca7-71e9-9654-0113709b637e") }, new(false), "api_key_malformed wrong_key?"},
		{"key of another", b.claim(stranger, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.APIKey = &b.key.APIKey }, new(false), "wrong_key?"},
		{"another message", b.claim(b.key, "GET", path, "", "/v2", "{}"), nil, new(false), "wrong_key?"},
		{"no signature", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.Signature = nil }, nil, ""},
		{"no key", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.APIKey = nil }, nil, ""},
		{"an HMAC", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.Signature = new(signature.Format(make([]byte, 32))) }, new(false), "signature_not_64_bytes"},
		{"small letters", b.claim(b.key, "get", path, "", path, "{}"), nil, new(false), "method_not_upper_case"},
		{"host", b.claim(b.key, "GET", "https://weft.example"+path, "", "https://weft.example"+path, "{}"), nil, new(false), "path_with_host"},
		{"prefix", b.claim(b.key, "GET", "/weft"+path, "", "/weft"+path, "{}"), nil, new(false), "path_with_prefix"},
		{"prefix that was not signed", b.claim(b.key, "GET", "/weft"+path, "", path, "{}"), nil, new(true), ""},
		{"prefix, another message", b.claim(b.key, "GET", "/weft"+path, "", "/v2", "{}"), nil, new(false), "wrong_key? path_with_prefix?"},
		{"prefix, no signature", b.claim(b.key, "GET", "/weft"+path, "", path, "{}"), func(c *auth.Claim) { c.Signature = nil }, nil, "path_with_prefix?"},
		{"prefix, hash of it", b.claim(b.key, "GET", "/weft"+path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature, c.MessageSha256 = nil, sum("GET|/weft"+path+"|"+c.Timestamp+"|{}")
		}, nil, "path_with_prefix"},
		{"prefix, right hash", b.claim(b.key, "GET", "/weft"+path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature, c.MessageSha256 = nil, sum("GET|"+path+"|"+c.Timestamp+"|{}")
		}, nil, ""},
		{"old", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { b.age(c, -31) }, new(true), "timestamp_expired?"},
		{"old enough", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { b.age(c, -30) }, new(true), ""},
		{"early", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { b.age(c, 1) }, new(true), "timestamp_in_future"},
		{"malformed", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) { c.Timestamp = "now" }, new(false), "timestamp_malformed wrong_key?"},
		{"right hash", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature, c.MessageSha256 = nil, sum("GET|"+path+"|"+c.Timestamp+"|{}")
		}, nil, ""},
		{"hash in capitals", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature, c.MessageSha256 = nil, new(strings.ToUpper(*sum("GET|" + path + "|" + c.Timestamp + "|{}")))
		}, nil, ""},
		{"hash of a mistake", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature, c.MessageSha256 = nil, sum("GET|"+path+"|"+c.Timestamp+"|")
		}, nil, "empty_body_not_braces"},
		{"right hash, another secret", b.claim(stranger, "GET", path, "", path, "{}"), func(c *auth.Claim) {
			c.APIKey, c.MessageSha256 = &b.key.APIKey, sum("GET|"+path+"|"+c.Timestamp+"|{}")
		}, new(false), "wrong_key?"},
		{"hash of something else", b.claim(b.key, "GET", path, "", path, "{}"), func(c *auth.Claim) {
			c.Signature, c.MessageSha256 = nil, sum("something else")
		}, nil, "other_message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.alter != nil {
				c.alter(&c.claim)
			}
			got := b.check(t, c.claim)
			if !reflect.DeepEqual(got.SignatureValid, c.valid) {
				t.Errorf("valid: %v", got.SignatureValid)
			}
			if c.name == "URL-safe base64" {
				if !strings.Contains(causes(got), "signature_unpadded") || strings.Contains(causes(got), "wrong_key") {
					t.Errorf("%s", causes(got))
				}
				return
			}
			if causes(got) != c.want {
				t.Errorf("%s, want %s", causes(got), c.want)
			}
		})
	}
}

// age signs the claim with a timestamp the given number of seconds from now.
func (b *bundle) age(c *auth.Claim, seconds int64) {
	c.Timestamp = strconv.FormatInt(b.clock.Unix()+seconds, 10)
	sig := signature.Sign(b.key.private, signature.Message(c.Method, c.Path, c.Timestamp, nil))
	c.Signature = new(signature.Format(sig))
}

// AU-09 applies to checks: they don't reveal whether a key exists or was revoked.
func TestAU09ACheckRevealsNothingAboutAKey(t *testing.T) {
	b := setup(t, auth.Options{})
	stranger, revoked := b.newKey(t, b.workspace), b.newKey(t, b.workspace)
	if _, err := b.keys.Revoke(t.Context(), b.workspace, revoked.KeyID); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/sdk/components"
	for _, signed := range []struct{ target, body string }{{path + "?a=1", "{}"}, {path, "{}"}, {path + "?a=1", ""}, {"/v2", "{}"}} {
		unknown := b.claim(revoked, "GET", path+"?a=1", "", signed.target, signed.body)
		unknown.APIKey = new("ws_unknown")
		gone := b.claim(revoked, "GET", path+"?a=1", "", signed.target, signed.body)
		wrong := b.claim(stranger, "GET", path+"?a=1", "", signed.target, signed.body)
		wrong.APIKey = &b.key.APIKey
		first := b.check(t, unknown)
		if first.SignatureValid == nil || *first.SignatureValid || causes(first) != "wrong_key?" {
			t.Errorf("an unknown key: %s", causes(first))
		}
		for name, claim := range map[string]auth.Claim{"a revoked key": gone, "another key's secret": wrong} {
			if got := b.check(t, claim); !reflect.DeepEqual(got, first) {
				t.Errorf("%s: %+v, want %+v", name, got, first)
			}
		}
	}
}

func TestCheckRejectsSecrets(t *testing.T) {
	b := setup(t, auth.Options{})
	der, err := base64.StdEncoding.DecodeString(b.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	inBase64 := func(text string) *string { return new(base64.StdEncoding.EncodeToString([]byte(text))) }
	for name, alter := range map[string]func(*auth.Claim){
		"/signature":           func(c *auth.Claim) { c.Signature = &b.key.APISecret },
		"/apiKey":              func(c *auth.Claim) { c.APIKey = &b.key.APISecret },
		"/method":              func(c *auth.Claim) { c.Method = b.key.APISecret },
		"/path":                func(c *auth.Claim) { c.Path += "?key=" + b.key.APISecret },
		"/timestamp":           func(c *auth.Claim) { c.Timestamp = hex.EncodeToString(der) },
		"/body":                func(c *auth.Claim) { c.Body = new(`{"apiSecret":"` + b.key.APISecret + `"}`) },
		"/bodyBase64":          func(c *auth.Claim) { c.Body, c.BodyBase64 = nil, inBase64(`{"a":"`+b.key.APISecret+`"}`) },
		"/bodyBase64 as it is": func(c *auth.Claim) { c.Body, c.BodyBase64 = nil, &b.key.APISecret },
		"":                     func(c *auth.Claim) { c.Sent = []byte(`{"apiSecret":"` + b.key.APISecret + `"}`) },
	} {
		pointer, _, _ := strings.Cut(name, " ")
		claim := b.claim(b.key, "GET", "/a", "", "/a", "{}")
		alter(&claim)
		_, err := b.verifier.Check(t.Context(), claim)
		refusal, _ := errors.AsType[*fault.Error](err)
		if refusal == nil || refusal.Code != fault.InvalidInput || refusal.Reason != "secret_sent" || refusal.Details[0].Pointer != pointer ||
			strings.Contains(err.Error(), b.key.APISecret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAU14ChecksAreLimitedByAddress(t *testing.T) {
	b := setup(t, auth.Options{})
	claim := b.claim(b.key, "GET", "/a", "", "/a", "{}")
	var wait time.Duration
	for i := range 202 {
		_, err := b.verifier.Check(t.Context(), claim)
		if refusal, limited := errors.AsType[*fault.Error](err); limited != (i >= 200) || limited && (refusal.Reason != "signature_checks" || refusal.RetryAfter <= 0) {
			t.Fatalf("the check %d: %v", i+1, err)
		} else if limited {
			wait = refusal.RetryAfter
		}
	}
	other := claim
	other.Client = from(auth.Request{}, "198.51.100.7").Client
	b.check(t, other)
	if got := verify(t, b.verifier, b.key.get(b.clock)); got != "" {
		t.Errorf("a signed request after so many checks: %s", got)
	}
	b.clock = b.clock.Add(wait)
	b.check(t, claim)
}

// Checks can't be used to get around the limit on failed authentications.
func TestAU14ChecksThatFailAreFailedAuthentications(t *testing.T) {
	b := setup(t, auth.Options{FailureBurst: 3, FailureRate: 0.001})
	wrong := b.claim(b.key, "GET", "/a", "", "/b", "{}")
	for range 3 {
		b.check(t, wrong)
	}
	_, err := b.verifier.Check(t.Context(), wrong)
	if refusal, _ := errors.AsType[*fault.Error](err); refusal == nil || refusal.Reason != "failed_authentications" {
		t.Errorf("the fourth: %v", err)
	}
	if _, err := b.verifier.Verify(t.Context(), b.key.get(b.clock)); fault.CodeOf(err) != fault.RateLimited {
		t.Errorf("a request after that: %v", err)
	}
	wrong.Signature = nil // a check without a signature proves nothing and stays allowed
	b.check(t, wrong)
}
