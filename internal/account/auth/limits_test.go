package auth_test

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/secret/signature"
)

func TestAU09UnknownRevokedAndWrongKeysLookTheSame(t *testing.T) {
	b := setup(t, auth.Options{})
	revoked := b.newKey(t, b.workspace)
	if _, err := b.keys.Revoke(t.Context(), b.workspace, revoked.KeyID); err != nil {
		t.Fatal(err)
	}
	unknown := b.key
	unknown.APIKey = "ws_" + "0000000000000000000000000000000000000000000"
	badSignature := b.key.get(b.clock)
	badSignature.Header.Set("X-Sdk-Signature", signature.Format(make([]byte, 64)))
	requests := []struct {
		name string
		auth.Request
	}{
		{"unknown key", unknown.get(b.clock)}, {"revoked key", revoked.get(b.clock)}, {"wrong signature", badSignature},
	}
	times := make([][]time.Duration, len(requests))
	for range 2000 { // in turns, so that noise affects all alike
		for i, r := range requests {
			start := time.Now()
			_, err := b.verifier.Verify(t.Context(), r.Request)
			times[i] = append(times[i], time.Since(start))
			message := signature.Message(r.Method, r.Target, r.Header.Get("X-Sdk-Timestamp"), nil)
			sameAnswer(t, err, message)
		}
	}
	medians := make([]time.Duration, len(requests))
	for i, r := range requests {
		slices.Sort(times[i])
		medians[i] = times[i][len(times[i])/2]
		t.Logf("%s: median %v", r.name, medians[i])
	}
	if waittest.Timed() && 2*slices.Max(medians) > 3*slices.Min(medians) {
		t.Errorf("the work differs: medians %v", medians)
	}
}

func TestAU14FailedAuthenticationsAreLimitedByAddress(t *testing.T) {
	b := setup(t, auth.Options{FailureBurst: 20, FailureRate: 4})
	bad := b.key.get(b.clock)
	bad.Header.Set("X-Sdk-Signature", signature.Format(make([]byte, 64)))
	refused, limited := 0, 0
	var wait time.Duration
	for i := range 5000 {
		_, err := b.verifier.Verify(t.Context(), bad)
		switch f, _ := errors.AsType[*fault.Error](err); f.Code {
		case fault.Unauthorized:
			refused++
		case fault.RateLimited:
			limited++
			wait = f.RetryAfter
		}
		if i%50 == 0 && verify(t, b.verifier, from(b.key.get(b.clock), "198.51.100.7")) != "" {
			t.Fatal("a client at another address is refused")
		}
	}
	if refused != 20 || limited != 4980 {
		t.Errorf("%d refused, %d limited", refused, limited)
	}
	b.clock = b.clock.Add(wait - time.Millisecond)
	if _, err := b.verifier.Verify(t.Context(), b.key.get(b.clock)); fault.CodeOf(err) != fault.RateLimited {
		t.Errorf("before Retry-After: %v", err)
	}
	b.clock = b.clock.Add(time.Millisecond)
	if got := verify(t, b.verifier, b.key.get(b.clock)); got != "" {
		t.Errorf("after Retry-After: %s", got)
	}
}

func TestAU14GoodRequestsNeverFillTheLimiter(t *testing.T) {
	b := setup(t, auth.Options{FailureBurst: 2, FailureRate: 0.001})
	for range 100 {
		if got := verify(t, b.verifier, b.key.get(b.clock)); got != "" {
			t.Fatal(got)
		}
	}
	if _, err := b.verifier.Verify(t.Context(), auth.Request{Client: home}); reason(t, err) != "missing_api_key" {
		t.Error(err)
	}
}

func TestAU14AnIPv6SubscriberIsOneAddress(t *testing.T) {
	b := setup(t, auth.Options{FailureBurst: 1, FailureRate: 0.001})
	try := func(address string) fault.Code {
		_, err := b.verifier.Verify(t.Context(), from(auth.Request{}, address))
		return fault.CodeOf(err)
	}
	for _, c := range []struct {
		address string
		want    fault.Code
	}{
		{"2001:db8:0:1::1", fault.Unauthorized},
		{"2001:db8:0:1:ffff::2", fault.RateLimited},
		{"2001:db8:0:2::1", fault.Unauthorized},
		{"192.0.2.9", fault.Unauthorized},
		{"::ffff:192.0.2.9", fault.RateLimited},
	} {
		if got := try(c.address); got != c.want {
			t.Errorf("%s: %s, want %s", c.address, got, c.want)
		}
	}
}

func from(r auth.Request, address string) auth.Request {
	r.Client = netip.MustParseAddr(address)
	return r
}

func TestForwardedForIsBelievedFromTrustedProxiesOnly(t *testing.T) {
	trusted := auth.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	cases := []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"no proxy", "192.0.2.1:99", nil, "192.0.2.1"},
		{"a stranger's claim", "192.0.2.1:99", []string{"203.0.113.5"}, "192.0.2.1"},
		{"one proxy", "10.1.2.3:99", []string{"203.0.113.5"}, "203.0.113.5"},
		{"two proxies", "10.1.2.3:99", []string{"203.0.113.5, 10.9.9.9"}, "203.0.113.5"},
		{"a claim before the truth", "10.1.2.3:99", []string{"1.1.1.1", "203.0.113.5"}, "203.0.113.5"},
		{"IPv6", "[::1]:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"garbage", "10.1.2.3:99", []string{"unknown"}, "10.1.2.3"},
		{"garbage before a proxy", "10.1.2.3:99", []string{"x, 10.9.9.9"}, "10.9.9.9"},
		{"nothing forwarded", "10.1.2.3:99", nil, "10.1.2.3"},
		{"mapped", "[::ffff:10.1.2.3]:99", []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
	}
	for _, c := range cases {
		header := http.Header{"X-Forwarded-For": c.forwarded}
		if got := trusted.Client(c.remote, header); got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPrecheckRejectsWhatVerifyRejectsWithoutTheBody(t *testing.T) {
	b := setup(t, auth.Options{FailureBurst: 3, FailureRate: 0.001})
	good := b.key.get(b.clock)
	if err := b.verifier.Precheck(good.Header, good.Client); err != nil {
		t.Errorf("good headers: %v", err)
	}
	for _, name := range []string{"X-Api-Key", "X-Sdk-Timestamp", "X-Sdk-Signature"} {
		without := b.key.get(b.clock)
		without.Header.Del(name)
		early, _ := errors.AsType[*fault.Error](b.verifier.Precheck(without.Header, without.Client))
		without.Client = netip.MustParseAddr("192.0.2.77") // whose failures are counted apart
		_, err := b.verifier.Verify(t.Context(), without)
		late, _ := errors.AsType[*fault.Error](err)
		if early == nil || late == nil || early.Reason != late.Reason {
			t.Errorf("without %s: %v before the body, %v after it", name, early, late)
		}
	}
}

func TestPrecheckCountsFailuresOfAnAddress(t *testing.T) {
	b := setup(t, auth.Options{FailureBurst: 3, FailureRate: 0.001})
	request := b.key.get(b.clock)
	for range 3 {
		if code := fault.CodeOf(b.verifier.Precheck(http.Header{}, request.Client)); code != fault.Unauthorized {
			t.Fatalf("code %s", code)
		}
	}
	if code := fault.CodeOf(b.verifier.Precheck(request.Header, request.Client)); code != fault.RateLimited {
		t.Errorf("code %s after three failures", code)
	}
}
