package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var signingCases = []Case{
	{
		Part: "5.1.1, 5.2.headers, 5.2.method, 5.2.timestamp, 5.2.secret, D2.5.date, 4.auth",
		Name: "sign/200 every signed operation", Run: signEverywhere,
	},
	{Part: "5.2.path, D2.1.query", Name: "sign/200 the query is part of PATH", Run: signQuery},
	{Part: "5.2.empty, D2.1.empty", Name: "sign/200 an empty body is {}", Run: signEmpty},
	{Part: "5.2.body, D2.2.raw", Name: "AU05 a body with white space, signed as sent", Run: signWhitespace},
	{Part: "D2.2.compact", Name: "AU05 a body with white space, signed compact", Run: signCompact},
	{Part: "5.2.utf8", Name: "AU05 a body beyond ASCII", Run: signUnicode},
	{Part: "D2.2.nothing", Name: "AU05 a body signed in any other form", Run: signOtherForm},
	{Part: "D2.9", Name: "sign/200 the same signed bytes twice", Run: signTwice},
	{Part: "5.2.window, D2.4.old, D2.4.future, 8.6.timestamp", Name: "AU02 timestamps around the window", Run: signWindow},
}

var refusalCases = []Case{
	{Part: "5.2.headers, D2.5.missing, 4.auth", Name: "auth/401 the headers missing one by one", Run: refuseMissing},
	{Part: "D2.4.form, D2.5.malformed", Name: "AU02 malformed timestamps", Run: refuseTimestamps},
	{Part: "D2.3, D2.5.malformed", Name: "AU07 malformed signatures", Run: refuseSignatures},
	{Part: "D2.5.sha, 5.2.method, 5.2.path, 5.2.timestamp, 5.2.body", Name: "AU03 one difference between signed and sent", Run: refuseFlips},
	{Part: "D2.5.time", Name: "auth/401 timestamp_expired and timestamp_in_future", Run: refuseStale},
	{Part: "5.2.secret", Name: "AU08 one key with another's secret", Run: refuseMixed, Needs: []probe.Need{probe.NeedForeign}},
	{Part: "D2.5.same", Name: "AU09 unknown key and wrong signature are one answer", Run: refuseAlike},
	{
		Part: "D1.8.limiter", Name: "auth/429 failed authentications of one address",
		Run: refuseFlood, Needs: []probe.Need{probe.NeedForwarded},
	},
	{Part: "4.auth, D1.8.open", Name: "auth/401 every operation that is not open", Run: refuseEverywhere},
}

var keyCases = []Case{
	{
		Part: "5.1.4, D2.5.same, D2.6.connect, D2.6.revoked, D2.7.revoked",
		Name: "AU11AndSS10 a key revoked while traffic and two streams run", Run: keyRevoked,
		Needs: []probe.Need{probe.NeedNear, probe.NeedNewKey},
	},
}

func signEverywhere(t *probe.Trial) {
	t.Check(strings.HasPrefix(t.Target().APIKey, "ws_"), "the key does not begin with ws_")
	requests, _ := signed(t, probe.RandomUUID(), probe.Signing{})
	for _, request := range requests {
		answer := t.Do(request)
		// A 409 for a replay shows that the request was authenticated.
		t.Check(answer.Status == 200 || answer.Status == 409 && (strings.HasSuffix(request.Path, "replay-callback") || strings.HasSuffix(request.Path, "callback/replay")),
			"%s: %d %s", request.Path, answer.Status, answer.Body)
		at, err := http.ParseTime(answer.Header.Get("Date"))
		t.Check(err == nil && time.Since(at).Abs() < time.Minute, "Date %q", answer.Header.Get("Date"))
	}
}

// refuse sends a request that must not be authenticated.
func refuse(t *probe.Trial, r probe.Request, reason string) api.Problem {
	answer := t.Do(r)
	p := t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")
	t.Equal("reason", probe.Reason(p), reason)
	t.Equal("retryable", p.Retryable, false)
	t.Equal("expectedMessageSha256 is given", p.ExpectedMessageSha256 != nil, reason == "invalid_credentials")
	stale := strings.HasPrefix(reason, "timestamp_")
	t.Equal("serverTime is given", p.ServerTime != nil, stale)
	t.Equal("deltaSeconds is given", p.DeltaSeconds != nil, stale)
	return p
}

func signQuery(t *probe.Trial) {
	for _, query := range []string{"limit=5", "limit=5&nonce=1", "nonce=%41%2f%C3%A4&limit=5", "nonce=a+b|&limit=5"} {
		answer := t.Get(probe.Executions + "?" + strings.ReplaceAll(query, "|", "%7C"))
		t.Equal(query, answer.Status, http.StatusOK)
	}
	refuse(t, probe.Request{Path: probe.Executions + "?limit=5", Sign: probe.Signing{Path: probe.Executions}}, "invalid_credentials")
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Path: probe.Executions + "?limit=5"}}, "invalid_credentials")
	refuse(t, probe.Request{Path: probe.Executions + "?a=%2f", Sign: probe.Signing{Path: probe.Executions + "?a=/"}}, "invalid_credentials")
}

func signEmpty(t *probe.Trial) {
	t.Equal("GET signed over {}", t.Get(probe.Executions).Status, http.StatusOK)
	id := t.Execute(probe.RandomUUID()).ID.String()
	path := probe.Execution(id) + "/replay-callback"
	for _, body := range [][]byte{nil, []byte("{}")} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: body, Header: http.Header{"Content-Type": nil}})
		if body != nil {
			answer = t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: body})
		}
		t.Equal("status", answer.Status, http.StatusConflict)
	}
	message := probe.Message(http.MethodGet, probe.Executions, "%s", nil)
	t.Check(bytes.HasSuffix(message, []byte("|{}")), "our own signer is wrong: %s", message)
}

const spaced = "{\n  \"module\" : \"HASH\",\r\n\t\"input\": { \"data\": \"a  b\\n\" },\n  \"config\": {},\n  \"waitForMs\": 15000\n}\n"

const compact = `{"module":"HASH","input":{"data":"a  b\n"},"config":{},"waitForMs":15000}`

// digestOf returns the SHA-256 in the output of HASH.
func digestOf(t *probe.Trial, answer probe.Answer, data string) {
	e := probe.Decode[api.ComponentExecution](t, answer)
	sum := sha256.Sum256([]byte(data))
	t.Check(strings.Contains(string(e.Output), hex.EncodeToString(sum[:])), "the component saw other data: %s", e.Output)
}

func signWhitespace(t *probe.Trial) {
	digestOf(t, t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(spaced)}), "a  b\n")
}

func signCompact(t *probe.Trial) {
	answer := t.Do(probe.Request{
		Method: http.MethodPost, Path: probe.Components, Body: []byte(spaced), Sign: probe.Signing{Body: []byte(compact)},
	})
	digestOf(t, answer, "a  b\n")
	refuse(t, probe.Request{
		Method: http.MethodPost, Path: probe.Components, Body: []byte(compact), Sign: probe.Signing{Body: []byte(spaced)},
	}, "invalid_credentials")
}

func signUnicode(t *probe.Trial) {
	for _, text := range []string{`ä€🔑`, `\u00e4\u20ac\ud83d\udd11`} {
		body := `{"module":"HASH","input":{"data":"` + text + `"},"config":{},"waitForMs":15000}`
		digestOf(t, t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(body)}), "ä€🔑")
	}
}

func signOtherForm(t *probe.Trial) {
	sent := `{"module":"HASH","input":{"data":"\u00e4/"},"config":{},"attempts":1}`
	for _, over := range []string{
		`{"config":{},"input":{"data":"\u00e4/"},"module":"HASH","attempts":1}`,
		`{"module":"HASH","input":{"data":"ä/"},"config":{},"attempts":1}`,
		`{"module":"HASH","input":{"data":"\u00e4\/"},"config":{},"attempts":1}`,
		`{"module":"HASH","input":{"data":"\u00E4/"},"config":{},"attempts":1}`,
		`{"module":"HASH","input":{"data":"\u00e4/"},"config":{},"attempts":1.0}`,
		`{}`,
	} {
		refuse(t, probe.Request{
			Method: http.MethodPost, Path: probe.Components, Body: []byte(sent), Sign: probe.Signing{Body: []byte(over)},
		}, "invalid_credentials")
	}
}

func signTwice(t *probe.Trial) {
	at := probe.Timestamp(time.Now())
	request := probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.RandomUUID()), Sign: probe.Signing{Timestamp: at}}
	first := probe.Decode[api.ComponentExecution](t, t.Do(request))
	second := probe.Decode[api.ComponentExecution](t, t.Do(request))
	t.Check(first.ID != second.ID, "the repeated request created no second execution")
}

// shifted sends a request with a timestamp that is off by some seconds.
func shifted(seconds int) probe.Request {
	at := time.Now().Add(time.Duration(seconds) * time.Second)
	return probe.Request{Path: probe.Executions + "?limit=1", Sign: probe.Signing{Timestamp: probe.Timestamp(at)}}
}

// shiftedWhole is like shifted, but sends the request in the middle of a second, so that the time
// difference is still the same when the request arrives.
func shiftedWhole(t *probe.Trial, seconds int) probe.Request {
	now := time.Now()
	wait(t, now.Truncate(time.Second).Add(1300*time.Millisecond).Sub(now))
	return shifted(seconds)
}

func signWindow(t *probe.Trial) {
	for _, seconds := range []int{0, -1, -28} {
		t.Equal(fmt.Sprint(seconds), t.Do(shifted(seconds)).Status, http.StatusOK)
	}
	// The clock may advance while a request is in flight, so only one of several requests at the
	// limit must succeed.
	t.Until("a timestamp of 30 s ago is accepted", 10*time.Second, func() bool { return t.Do(shifted(-30)).Status == http.StatusOK })
	refuse(t, shiftedWhole(t, -31), "timestamp_expired")
	t.Until("a timestamp of 1 s ahead is refused", 10*time.Second, func() bool { return t.Do(shifted(1)).Status == http.StatusUnauthorized })
	refuse(t, shifted(31), "timestamp_in_future")
}

func refuseStale(t *probe.Trial) {
	for seconds, reason := range map[int]string{-42: "timestamp_expired", 60: "timestamp_in_future"} {
		p := refuse(t, shifted(seconds), reason)
		t.Check(time.Since(p.ServerTime.Std()).Abs() < time.Minute, "serverTime %v", p.ServerTime)
		t.Check(*p.DeltaSeconds >= int64(seconds)-5 && *p.DeltaSeconds <= int64(seconds), "deltaSeconds %d for %d", *p.DeltaSeconds, seconds)
	}
}

// without returns a change that removes a header.
func without(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }

// with returns a change that sets a header to values.
func with(name string, values ...string) func(http.Header) {
	return func(h http.Header) { h[http.CanonicalHeaderKey(name)] = values }
}

func refuseMissing(t *probe.Trial) {
	for _, c := range []struct {
		alter  func(http.Header)
		reason string
	}{
		{without("X-Api-Key"), "missing_api_key"},
		{without("X-Sdk-Timestamp"), "missing_timestamp"},
		{without("X-Sdk-Signature"), "missing_signature"},
		{with("X-Api-Key", ""), "missing_api_key"},
		{with("X-Sdk-Timestamp", ""), "missing_timestamp"},
		{with("X-Sdk-Signature", ""), "missing_signature"},
	} {
		refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Alter: c.alter}}, c.reason)
	}
}

func refuseTimestamps(t *probe.Trial) {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for _, at := range []string{
		"+5", "-5", "05", "0x5", "abc", now + ".0", now + "e0", "1_000", strings.Repeat("1", 20), "-" + now, "0" + now, now + " 1", "٥",
	} {
		refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Timestamp: at}}, "malformed_timestamp")
	}
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Alter: with("X-Sdk-Timestamp", now, now)}}, "malformed_timestamp")
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Timestamp: now + "000"}}, "timestamp_in_future")
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Timestamp: "0"}}, "timestamp_expired")
}

func refuseSignatures(t *probe.Trial) {
	good := bytes.Repeat([]byte{0xfb, 0xff, 0x11, 0x3e}, 16) // with + and / in base64
	standard := base64.StdEncoding.EncodeToString(good)
	for _, signature := range []string{
		base64.URLEncoding.EncodeToString(good), base64.RawStdEncoding.EncodeToString(good), standard[:40] + " " + standard[40:],
		base64.StdEncoding.EncodeToString(good[:63]), base64.StdEncoding.EncodeToString(append(good[:64:64], 1)),
		hex.EncodeToString(good), "=", "!", standard + "\t=", standard[:85] + "x==",
	} {
		refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Alter: with("X-Sdk-Signature", signature)}}, "malformed_signature")
	}
	zero, all := make([]byte, 64), bytes.Repeat([]byte{0xff}, 64) // the latter: S is not below the order
	for _, signature := range [][]byte{zero, all, good} {
		alter := with("X-Sdk-Signature", base64.StdEncoding.EncodeToString(signature))
		refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{Alter: alter}}, "invalid_credentials")
	}
}

func refuseFlips(t *probe.Trial) {
	at := probe.Timestamp(time.Now())
	body := t.JSON(probe.RandomUUID())
	honest := probe.Request{Method: http.MethodPost, Path: probe.Components, Body: body, Sign: probe.Signing{Timestamp: at}}
	flip := func(change func(*probe.Signing)) {
		request := honest
		change(&request.Sign)
		p := refuse(t, request, "invalid_credentials")
		sum := sha256.Sum256(probe.Message(http.MethodPost, probe.Components, at, body))
		t.Decided("D2.5.sha", *p.ExpectedMessageSha256 == hex.EncodeToString(sum[:]), "expectedMessageSha256 is %s", *p.ExpectedMessageSha256)
	}
	flip(func(s *probe.Signing) { s.Method = "post" })
	flip(func(s *probe.Signing) { s.Method = "PUT" })
	flip(func(s *probe.Signing) { s.Path = probe.Components + "/" })
	flip(func(s *probe.Signing) { s.Path = "/v1/sdk/Components" })
	flip(func(s *probe.Signing) { s.Path = "http://host" + probe.Components })
	flip(func(s *probe.Signing) { s.Timestamp, s.Alter = at+"0", with("X-Sdk-Timestamp", at) })
	for i := 0; i < len(body); i += 7 {
		flipped := bytes.Clone(body)
		flipped[i] ^= 1
		flip(func(s *probe.Signing) { s.Body = flipped })
	}
	t.Equal("the honest one", t.Do(honest).Status, http.StatusOK)
}

func refuseMixed(t *probe.Trial) {
	own, foreign := t.Target().Credentials, *t.Target().Foreign
	mixed := own
	mixed.APISecret = foreign.APISecret
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{As: &mixed}}, "invalid_credentials")
	mixed = foreign
	mixed.APISecret = own.APISecret
	refuse(t, probe.Request{Path: probe.Executions, Sign: probe.Signing{As: &mixed}}, "invalid_credentials")
}

// faceless returns a rejection without the fields that identify the request.
func faceless(answer probe.Answer, p api.Problem) string {
	text := strings.NewReplacer(p.RequestID, "", *p.ExpectedMessageSha256, "").Replace(string(answer.Body))
	names := make([]string, 0, len(answer.Header))
	for _, name := range []string{"Content-Type", "Www-Authenticate", "Cache-Control", "Content-Length"} {
		names = append(names, name+": "+answer.Header.Get(name))
	}
	return fmt.Sprint(answer.Status, len(answer.Header), names, text)
}

func refuseAlike(t *probe.Trial) {
	unknown := t.Target().Credentials
	unknown.APIKey = "ws_" + strings.Repeat("x", len(unknown.APIKey)-3)
	wrong := probe.Signing{Method: "PUT"}
	var answers [2]string
	for range 40 {
		for i, sign := range []probe.Signing{{As: &unknown}, wrong} {
			request := probe.Request{Path: probe.Executions, Sign: sign, Header: http.Header{"X-Request-Id": {"same"}}}
			answer := t.Do(request)
			p := t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")
			t.Equal("reason", probe.Reason(p), "invalid_credentials")
			answers[i] = faceless(answer, p)
		}
		t.Equal("the answer to a wrong signature", answers[1], answers[0])
	}
}

func refuseFlood(t *probe.Trial) {
	requests, _ := signed(t, probe.RandomUUID(), probe.Signing{})
	var asked atomic.Bool
	t.Parallel(9, func(i int) {
		if i > 0 { // the bucket is refilled continuously: keep it empty
			for range 5000 {
				if asked.Load() {
					return
				}
				_, err := t.Try(t.Context(), probe.Request{Path: probe.Executions, Sign: probe.Signing{Method: "PUT"}, Unchecked: true, Once: true})
				t.NoError("flood", err)
			}
			return
		}
		defer asked.Store(true)
		for _, request := range requests {
			request.Once = true
			var answer probe.Answer
			t.Until("the limit of failed authentications", 40*time.Second, func() bool {
				answer = t.Do(request)
				return answer.Status == http.StatusTooManyRequests
			})
			if request.Method == http.MethodHead {
				continue // its response has no body
			}
			p := t.Problem(answer, http.StatusTooManyRequests, "RATE_LIMITED")
			t.Equal("retryable", p.Retryable, true)
			seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
			t.Check(err == nil && seconds >= 1 && seconds <= 60, "Retry-After %q", answer.Header.Get("Retry-After"))
		}
	})
	t.Equal("an open operation", t.Get("/healthz").Status, http.StatusOK)
}

func refuseEverywhere(t *probe.Trial) {
	for _, operation := range t.Target().Spec.Operations() {
		answer := t.Do(probe.Request{Method: operation.Method, Path: concrete(operation.Template), Sign: probe.Signing{Alter: without("X-Api-Key")}})
		switch {
		case operation.Signed():
			t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")), "missing_api_key")
		case operation.Person():
			t.Equal("reason", probe.Reason(t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")), "missing_session")
		case operation.ID == "receiveHook": // the hook itself authorizes a delivery, and this hook does not exist
			t.Problem(answer, http.StatusNotFound, "NOT_FOUND")
		case operation.SignsIn(), operation.ID == "checkSignature", operation.ID == "challengeHook":
			t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT") // open, but for nobody in particular
		default:
			t.Equal(operation.Template, answer.Status, http.StatusOK)
		}
	}
}

func keyRevoked(t *probe.Trial) {
	key, revoke, err := t.Target().NewKey(t.Context())
	t.NoError("make a key", err)
	url, _, asked := held(t)
	call := probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.Fetch(url)), Sign: probe.Signing{As: &key}}
	id := probe.Decode[api.ComponentExecution](t, t.Do(call)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	var streams [2]*probe.Stream
	for i := range streams {
		streams[i] = t.StreamOf(probe.Request{Path: probe.Execution(id) + "/stream", Sign: probe.Signing{As: &key}})
		_, ok := streams[i].Next()
		t.Check(ok, "the stream ended before the execution")
	}
	read := probe.Request{Path: probe.Execution(id), Sign: probe.Signing{As: &key}}
	t.Equal("status before", t.Do(read).Status, http.StatusOK)
	t.NoError("revoke", revoke(t.Context()))
	revoked := time.Now()
	t.Until("the revoked key is refused", time.Second, func() bool { return t.Do(read).Status == http.StatusUnauthorized })
	for range 50 {
		refuse(t, read, "invalid_credentials")
	}
	refuse(t, probe.Request{Path: probe.Execution(id) + "/stream", Sign: probe.Signing{As: &key}}, "invalid_credentials")
	wrong := t.Do(probe.Request{Path: read.Path, Sign: probe.Signing{Method: "PUT"}})
	gone := t.Do(read)
	t.Equal("the answer to a revoked key",
		faceless(gone, t.Problem(gone, http.StatusUnauthorized, "UNAUTHORIZED")),
		faceless(wrong, t.Problem(wrong, http.StatusUnauthorized, "UNAUTHORIZED")))
	for _, stream := range streams {
		for _, e := range stream.Rest() {
			t.Check(!e.Status.Terminal(), "a terminal event of what still runs")
		}
	}
	t.Soon(time.Since(revoked), 5*time.Second, "the streams ended %v after the revocation", time.Since(revoked))
	t.Equal("another key's status", t.Get(probe.Execution(id)).Status, http.StatusOK)
}
