package conformance

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/gen/api"
)

const signatureCheck = "/v1/sdk/signature-check"

var checkCases = []Case{
	{Part: "D1.8.check, D1.8.open, 5.2.method, 5.2.path, 5.2.timestamp, 5.2.body, 5.2.empty, 5.2.utf8", Name: "signing/200 the message of every vector", Run: checkVectors},
	{Part: "D1.8.check, D2.5.sha", Name: "signing/200 what a wrong signer did", Run: checkMistakes},
	{Part: "D1.8.check, D2.5.same", Name: "signing/200 no more about a key than a 401 reveals", Run: checkKeys, Needs: []probe.Need{probe.NeedForeign}},
	{Part: "D1.8.check, D3.table", Name: "signing/400, 406, 413, 415 the form of a check", Run: checkForm},
	{Part: "D1.8.check, D1.8.limiter", Name: "signing/429 too many checks from one address", Run: checkFlood, Needs: []probe.Need{probe.NeedForwarded}},
}

// checking returns the unsigned request of a signature check.
func checking(t *probe.Trial, claim object) probe.Request {
	return probe.Request{Method: http.MethodPost, Path: signatureCheck, Body: t.JSON(claim), Unsigned: true, Header: http.Header{}}
}

func check(t *probe.Trial, claim object) api.SignatureCheck {
	return probe.Decode[api.SignatureCheck](t, t.Do(checking(t, claim)))
}

func checkVectors(t *probe.Trial) {
	var kit struct {
		Requests []struct{ Name, Method, Path, Timestamp, Body, BodyBase64, MessageBase64, MessageSha256 string }
	}
	t.NoError("vectors", json.Unmarshal(signers.Vectors, &kit))
	t.Check(len(kit.Requests) > 30, "%d vectors", len(kit.Requests))
	for i, v := range kit.Requests {
		claim := object{"method": v.Method, "path": v.Path, "timestamp": v.Timestamp, "body": v.Body}
		if i%2 == 1 {
			delete(claim, "body")
			claim["bodyBase64"] = v.BodyBase64
		}
		got := check(t, claim)
		message, hash := got.MessageBase64, got.MessageSha256
		if got.MessageAsSentSha256 != nil { // the signed body of the vector equals the sent body
			t.Check(strings.ContainsAny(v.Body, " \n\t"), "%s: messageAsSentSha256 of a compact body", v.Name)
			hash, message = *got.MessageAsSentSha256, v.MessageBase64
		}
		t.Equal(v.Name+" messageBase64", message, v.MessageBase64)
		t.Equal(v.Name+" messageSha256", hash, v.MessageSha256)
		text, err := base64.StdEncoding.DecodeString(got.MessageBase64)
		t.NoError("messageBase64", err)
		t.Equal(v.Name+" messageLength", int(got.MessageLength), len(text))
		t.Check(got.Message != nil && *got.Message == string(text), "%s: message", v.Name)
		t.Check(got.SignatureValid == nil && got.DeltaSeconds != nil, "%s: signatureValid %v, deltaSeconds %v", v.Name, got.SignatureValid, got.DeltaSeconds)
		t.Check(time.Since(time.Time(got.ServerTime)).Abs() < time.Minute, "serverTime %v", got.ServerTime)
	}
	bytes := check(t, object{"method": "POST", "path": "/v1/sdk/components", "timestamp": "1795257600", "bodyBase64": "/w=="})
	t.Check(bytes.Message == nil && bytes.MessageLength == 36, "a body that is not valid UTF-8: %s", t.JSON(bytes))
	none := check(t, object{"method": "GET", "path": "/v1/sdk/components", "timestamp": "now"})
	t.Check(none.DeltaSeconds == nil && causesOf(none) == "timestamp_malformed", "no timestamp: %s", t.JSON(none))
}

// causesOf lists the codes of the causes. A question mark follows each cause that is not certain.
func causesOf(result api.SignatureCheck) string {
	var codes []string
	for _, cause := range result.Causes {
		if code := cause.Code; cause.Certain {
			codes = append(codes, code)
		} else {
			codes = append(codes, code+"?")
		}
	}
	return strings.Join(codes, " ")
}

// claimed returns a signature check whose signature covers another message.
func claimed(t *probe.Trial, as probe.Credentials, method, path, body, message string) object {
	timestamp := probe.Timestamp(time.Now().Add(-time.Second))
	signature, err := probe.Sign(as.APISecret, []byte(strings.ReplaceAll(message, "TIME", timestamp)))
	t.NoError("sign", err)
	return object{"method": method, "path": path, "timestamp": timestamp, "body": body, "signature": signature, "apiKey": as.APIKey}
}

func checkMistakes(t *probe.Trial) {
	own := t.Target().Credentials
	const list, body = probe.Executions + "?limit=1", `{"module":"HASH","input":{"data":"é"},"config":{}}`
	for _, c := range []struct{ method, path, body, message, want string }{
		{"GET", list, "", "GET|" + list + "|TIME|{}", ""},
		{"GET", list, "", "GET|" + probe.Executions + "|TIME|{}", "path_without_query"},
		{"GET", list, "", "GET|" + list + "|TIME|", "empty_body_not_braces"},
		{"GET", list, "", "GET|" + list + "|TIME000|{}", "timestamp_in_milliseconds"},
		{"GET", list, "", "GET | " + list + " | TIME | {}", "other_separators"},
		{"POST", probe.Components, body, "POST|" + probe.Components + "|TIME|" + body, ""},
		{"POST", probe.Components, body, "POST|" + probe.Components + `|TIME|{"module": "HASH", "input": {"data": "\u00e9"}, "config": {}}`, "body_serialized_again"},
		{"POST", probe.Components, body, "POST|" + probe.Components + `|TIME|{"module":"HASH","input":{"data":"\u00e9"},"config":{}}`, "body_escapes"},
		{"POST", probe.Components, body, "POST|" + probe.Components + "|TIME|{}", "body_left_out"},
		{"POST", probe.Components, body, "something else", "wrong_key?"},
	} {
		claim := claimed(t, own, c.method, c.path, c.body, c.message)
		got := check(t, claim)
		t.Equal(c.message, causesOf(got), c.want)
		t.Check(got.SignatureValid != nil && *got.SignatureValid == (c.want == ""), "%s: signatureValid %v", c.message, got.SignatureValid)
		// The server rejects the request itself for the same reason.
		answer := t.Do(probe.Request{Method: c.method, Path: c.path, Body: []byte(c.body), Sign: probe.Signing{Alter: func(h http.Header) {
			h.Set("X-Sdk-Timestamp", claim["timestamp"].(string))
			h.Set("X-Sdk-Signature", claim["signature"].(string))
		}}})
		t.Equal(c.message+" accepted", answer.Status == http.StatusOK, c.want == "")
		if c.want != "" {
			p := t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")
			t.Check(p.ExpectedMessageSha256 != nil && *p.ExpectedMessageSha256 == got.MessageSha256, "the 401 expects another message than the check")
		}
	}
	unpadded := claimed(t, own, "GET", list, "", "GET|"+list+"|TIME|{}")
	unpadded["signature"] = strings.TrimRight(unpadded["signature"].(string), "=")
	t.Equal("unpadded", causesOf(check(t, unpadded)), "signature_unpadded")
	prefixed := claimed(t, own, "GET", "/prefix"+list, "", "GET|/prefix"+list+"|TIME|{}")
	t.Equal("with a prefix", causesOf(check(t, prefixed)), "path_with_prefix")
	hash := object{"method": "GET", "path": list, "timestamp": probe.Timestamp(time.Now()), "messageSha256": strings.Repeat("0", 64)}
	t.Equal("another hash", causesOf(check(t, hash)), "other_message")
}

func checkKeys(t *probe.Trial) {
	own, foreign := t.Target().Credentials, *t.Target().Foreign
	mixed, unknown := own, foreign
	mixed.APISecret, unknown.APIKey = foreign.APISecret, "ws_unknown"
	for _, message := range []string{"GET|/v1/sdk/components?limit=1|TIME|{}", "GET|/v1/sdk/components|TIME|{}", "x"} {
		var answers []string
		for _, as := range []probe.Credentials{mixed, unknown} {
			got := check(t, claimed(t, as, "GET", "/v1/sdk/components?limit=1", "", message))
			t.Check(got.SignatureValid != nil && !*got.SignatureValid, "signatureValid %v", got.SignatureValid)
			answers = append(answers, string(t.JSON(got.Causes)))
		}
		t.Equal("the causes of an unknown key", answers[1], answers[0])
	}
}

// madeUpSecret returns an apiSecret that belongs to no key, because an endpoint without
// authentication must never get the secret of the workspace.
func madeUpSecret(t *probe.Trial) string {
	_, private, err := ed25519.GenerateKey(nil)
	t.NoError("make a key", err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	t.NoError("encode the key", err)
	return base64.StdEncoding.EncodeToString(encoded)
}

func checkForm(t *probe.Trial) {
	secret := madeUpSecret(t)
	whole := func() object { return object{"method": "GET", "path": "/v1/sdk/components", "timestamp": "1795257600"} }
	for _, c := range []struct {
		field, pointer string
		value          any
	}{
		{"method", "/method", ""}, {"path", "/path", nil}, {"path", "/path", ""}, {"timestamp", "/timestamp", 1795257600},
		{"body", "/body", object{"module": "HASH"}}, {"body", "/body", strings.Repeat("x", 1<<16+1)},
		{"bodyBase64", "/bodyBase64", "a-_"}, {"messageSha256", "/messageSha256", "00"}, {"signature", "/signature", strings.Repeat("x", 1025)},
		{"signature", "/signature", secret}, {"apiKey", "/apiKey", secret},
		{"path", "/path", "/v1/sdk/components?" + secret}, {"apiSecret", "", secret},
	} {
		claim := whole()
		claim[c.field] = c.value
		answer := t.Do(checking(t, claim))
		p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
		t.Check(len(p.Errors) == 1 && p.Errors[0].Pointer == c.pointer, "%s: %s", c.field, answer.Body)
		t.Check(!strings.Contains(string(answer.Body), secret), "the secret is echoed")
		text, _ := c.value.(string)
		t.Equal(c.field+" is a secret", probe.Reason(p) == "secret_sent", strings.Contains(text, secret))
	}
	both := whole()
	both["body"], both["bodyBase64"] = "{}", "e30="
	t.Problem(t.Do(checking(t, both)), http.StatusBadRequest, "INVALID_INPUT")
	t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: signatureCheck, Unsigned: true}), http.StatusBadRequest, "INVALID_INPUT")
	more := whole()
	more["apiSecret"] = "x"
	t.Equal("an unknown field", t.Do(checking(t, more)).Status, http.StatusOK)
	strict := checking(t, more)
	strict.Header.Set("Prefer", "handling=strict")
	t.Problem(t.Do(strict), http.StatusBadRequest, "INVALID_INPUT")
	strict = checking(t, whole())
	strict.Header.Set("Prefer", "handling=strict")
	answer := t.Do(strict)
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	t.Equal("Cache-Control", answer.Header.Get("Cache-Control"), "no-store")
	image := checking(t, whole())
	image.Header.Set("Accept", "image/png")
	t.Problem(t.Do(image), http.StatusNotAcceptable, "NOT_ACCEPTABLE")
	text := checking(t, whole())
	text.Header.Set("Content-Type", "text/plain")
	t.Problem(t.Do(text), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	large := checking(t, whole())
	large.Body = make([]byte, 1<<20+1)
	t.Problem(t.Do(large), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
}

func checkFlood(t *probe.Trial) {
	request := checking(t, object{"method": "GET", "path": "/v1/sdk/components", "timestamp": "1795257600"})
	flood(t, request)
	limited(t, request, request, "signature_checks", 60)
	t.Equal("a signed operation", t.Get(probe.Executions+"?limit=1").Status, http.StatusOK)
}
