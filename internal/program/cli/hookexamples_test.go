package cli_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// Each example has the headers and the signature of its sender.
func TestHooksAreTestedWithSignedExamples(t *testing.T) {
	t.Parallel()
	const secret = "the-secret-of-the-sender"
	hash := func(text string) []byte {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	for preset, valid := range map[string]func(h http.Header, body string) bool{
		"stripe": func(h http.Header, body string) bool {
			at, proof, _ := strings.Cut(strings.TrimPrefix(h.Get("Stripe-Signature"), "t="), ",v1=")
			return proof == hex.EncodeToString(hash(at+"."+body)) && strings.Contains(body, `"id":"evt_`)
		},
		"slack": func(h http.Header, body string) bool {
			return h.Get("X-Slack-Signature") == "v0="+hex.EncodeToString(hash("v0:"+h.Get("X-Slack-Request-Timestamp")+":"+body)) && strings.Contains(body, "&command=")
		},
		"github": func(h http.Header, body string) bool {
			return h.Get("X-Hub-Signature-256") == "sha256="+hex.EncodeToString(hash(body)) && h.Get("X-GitHub-Delivery") != "" && strings.HasPrefix(body, "payload=%7B")
		},
		"shopify": func(h http.Header, body string) bool {
			return h.Get("X-Shopify-Hmac-Sha256") == base64.StdEncoding.EncodeToString(hash(body)) && h.Get("X-Shopify-Webhook-Id") != ""
		},
		"standardWebhooks": func(h http.Header, body string) bool {
			return h.Get("webhook-signature") == "v1,"+base64.StdEncoding.EncodeToString(hash(h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."+body))
		},
	} {
		status, shown := http.StatusOK, `"scheme":"hmac"`
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, strings.Replace(hookText("ACTIVE"), `"scheme":"hmac"`, shown, 1))
		})
		service, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		routes := http.NewServeMux() // s accepts signed requests only
		routes.Handle("/", httputil.NewSingleHostReverseProxy(service))
		routes.HandleFunc("/v1/hooks/", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.URL.Path != "/v1/hooks/"+hookID || !valid(r.Header, string(body)) || r.Header.Get("X-Api-Key") != "" {
				t.Errorf("%s: %v %s %s", preset, err, r.Header, body)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, `{"received":true}`)
		})
		front := httptest.NewServer(routes)
		t.Cleanup(front.Close)
		test := func(stdin string, args ...string) result {
			return run(t, s.environ(), stdin, append([]string{"hooks", "test", hookID, "--base-url=" + front.URL}, args...)...)
		}
		test(secret+"\n").check(t, 2, "", "the hook has no preset")
		test(secret+"\n", "--preset="+preset).check(t, 0, `"received": true`, "answered 200 OK")
		shown = `"scheme":"hmac","preset":"` + preset + `"`
		test(secret).check(t, 0, `"received": true`, "")
		test("").check(t, 1, "", "the secret is missing")
		status = http.StatusUnauthorized
		got := test(secret)
		if got.check(t, 1, "", "the delivery was rejected"); strings.Contains(got.stderr, secret) {
			t.Errorf("%s: the secret is shown: %s", preset, got.stderr)
		}
	}
}

func TestHooksAreCreatedWithEverySetting(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, hookText("ACTIVE")) })
	hooks := func(args ...string) result {
		return run(t, s.environ(), "hush-hush\n", append([]string{"hooks"}, args...)...)
	}
	hooks("create", workflowID, "--scheme=token", "--handshake=validationToken", "--delivery-field=/id", "--respond").check(t, 0, "", "")
	hooks("create", workflowID, "--scheme=timestampedHmac", "--header=X-Sig", "--signed-text={id}.{timestamp}.{body}", "--element=v1", "--timestamp-element=t", "--id-header=X-Id",
		"--tolerance=60", "--secret-encoding=hex").check(t, 0, "", "")
	hooks("update", hookID, "--no-respond").check(t, 0, "", "")
	for want, args := range map[string][]string{
		"--delivery-field needs": {"--delivery-field=/id"}, "can't be used with": {"--preset=slack", "--scheme=token"}, "--signed-text needs": {"--preset=slack", "--signed-text={body}"},
		"--handshake needs": {"--handshake=urlVerification"}, "can't be used together": {"--preset=slack", "--delivery-field=/id", "--delivery-header=X-Id"}, "use one of urlVerification, validationToken": {"--scheme=token", "--handshake=zoom"},
	} {
		hooks(append([]string{"create", workflowID}, args...)...).check(t, 2, "", want)
	}
	path := "/v1/sdk/hooks"
	for i, want := range []string{
		"POST " + path + ` {"respond":true,"verification":{"deliveryField":"/id","handshake":["validationToken"],"scheme":"token","secret":"hush-hush"},"workflowId":"` + workflowID + `"}`,
		"POST " + path + ` {"verification":{"element":"v1","header":"X-Sig","idHeader":"X-Id","scheme":"timestampedHmac","secret":"hush-hush","secretEncoding":"hex","signedText":"{id}.{timestamp}.{body}",` +
			`"timestampElement":"t","toleranceSeconds":60},"workflowId":"` + workflowID + `"}`,
		"GET " + path + "/" + hookID, "PUT " + path + "/" + hookID + ` {"name":"of\u001b[2J X","respond":false}`,
	} {
		if got := s.asked()[i]; got != want {
			t.Errorf("sent %s\nwant %s", got, want)
		}
	}
}
