package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
)

// settled returns the callback of an execution once the callback was delivered, or attempted the
// given number of times.
func settled(t *testing.T, weft *client.Client, made api.ComponentExecution, attempts int32) api.ComponentExecutionCallback {
	t.Helper()
	var now api.ComponentExecution
	waittest.Until(t, "the callback to be delivered or given up", func() (over bool) {
		var err error
		if now, _, err = weft.Get(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		return now.Callback.DeliveredAt != nil || now.Callback.AttemptCount >= attempts
	})
	return now.Callback
}

func TestListenToTheRealService(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t, "--allow-network=127.0.0.0/8", "--callback-schedule=0s,50ms,50ms")
	credentials, err := client.ReadCredentials(strings.TrimPrefix(environ[0], "WEFT_CREDENTIALS="))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := client.NewSigner(credentials.APIKey, credentials.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	weft, err := client.New(baseURL, signer, nil)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(t *testing.T, l *listening, secret string, headers map[string]string) api.ComponentExecution {
		t.Helper()
		request := api.ExecuteComponentRequest{
			Module: "RANDOM_UUID", Input: []byte("{}"), Config: []byte("{}"), CallbackURL: new("http://" + l.address + "/hooks/a?b=1"),
			CallbackHeaders: headers,
		}
		if secret != "" {
			request.CallbackSecret = &secret
		}
		made, _, err := weft.Execute(t.Context(), request, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	own := append(environ, "WEFT_CALLBACK_SECRET="+listenSecret)

	t.Run("fails twice and is delivered then", func(t *testing.T) {
		t.Parallel()
		l := startListen(t, own, "", "--count=3", "--fail-first=2")
		made := submit(t, l, listenSecret, nil)
		got := l.end(t)
		got.check(t, 0, "attempt 3  signature good  answered 204 in ", "3 deliveries, 0 with problems.")
		if strings.Contains(got.stderr, "--allow-network") {
			t.Errorf("unexpected hint about the network: %s", got.stderr)
		}
		if strings.Count(got.stdout, made.ID.String()+"  RANDOM_UUID  COMPLETED  ") != 3 || strings.Count(got.stdout, "signature good  answered 500 on purpose") != 2 {
			t.Errorf("unexpected output %s", got.stdout)
		}
		if callback := settled(t, weft, made, 3); callback.DeliveredAt == nil || callback.AttemptCount != 3 {
			t.Errorf("unexpected callback of the record %+v", callback)
		}
	})
	t.Run("reports wrong and missing secrets", func(t *testing.T) {
		t.Parallel()
		for secret, want := range map[string]string{
			"another": "signature BAD  answered 401 in ", "": "signature absent  answered 401 in ",
		} {
			l := startListen(t, own, "", "--count=3")
			made := submit(t, l, secret, nil)
			l.end(t).check(t, 1, "attempt 3  "+want, "3 deliveries, 3 with problems.")
			if callback := settled(t, weft, made, 3); callback.DeliveredAt != nil || !strings.Contains(string(callback.LastError), "401") {
				t.Errorf("unexpected callback of the record %+v", callback)
			}
		}
	})
	t.Run("drops and is slow", func(t *testing.T) {
		t.Parallel()
		for how, want := range map[string]string{"drop": "dropped on purpose in ", "slow:100ms": "answered 204, slow on purpose, in "} {
			l := startListen(t, own, "", "--once", "--fail="+how)
			submit(t, l, listenSecret, nil)
			l.end(t).check(t, 0, "attempt 1  signature good  "+want, "1 delivery, 0 with problems.")
		}
	})
	t.Run("forwards", func(t *testing.T) {
		t.Parallel()
		type arrival struct {
			header http.Header
			target string
			body   []byte
		}
		arrivals := make(chan arrival, 1)
		behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			arrivals <- arrival{r.Header, r.RequestURI, body}
			w.WriteHeader(http.StatusAccepted)
		}))
		defer behind.Close()
		l := startListen(t, own, "", "--once", "--json", "--body", "--forward="+behind.URL)
		made := submit(t, l, listenSecret, map[string]string{"X-Order": "4711", "Authorization": "Bearer of-the-caller"})
		got := l.end(t)
		got.check(t, 0, `"forwarded":true`, "1 delivery, 0 with problems.")
		got.check(t, 0, `"answer":202`, "")
		if strings.Contains(got.stdout+got.stderr, "of-the-caller") || strings.Contains(got.stdout+got.stderr, listenSecret) {
			t.Errorf("the output contains a secret: %s", got.stdout)
		}
		arrived := <-arrivals
		if callback := settled(t, weft, made, 1); callback.DeliveredAt == nil {
			t.Errorf("unexpected callback of the record %+v", callback)
		}
		h := arrived.header
		if h.Get("X-Svc-Signature") != macOf(listenSecret, arrived.body) || h.Get("X-Svc-Execution-Id") != made.ID.String() || h.Get("Webhook-Signature") == "" ||
			h.Get("X-Order") != "4711" || h.Get("Authorization") != "Bearer of-the-caller" || arrived.target != "/hooks/a?b=1" {
			t.Errorf("%s was forwarded with headers %v", arrived.target, h)
		}
		if !bytes.Contains(arrived.body, []byte(made.ID.String())) {
			t.Errorf("forwarded body: %s", arrived.body)
		}
	})
	t.Run("notices a delivery that is repeated", func(t *testing.T) {
		t.Parallel()
		l := startListen(t, own, "", "--count=2")
		made := submit(t, l, listenSecret, nil)
		settled(t, weft, made, 1)
		path := "/v1/sdk/components/executions/" + made.ID.String() + "/replay-callback?force=true"
		if _, err := weft.Call(t.Context(), http.MethodPost, path, nil, nil); err != nil {
			t.Fatal(err)
		}
		l.end(t).check(t, 0, "attempt 2  signature good  answered 204 in ", "2 deliveries, 0 with problems.")
		if got := l.stop(); !strings.Contains(got.stdout, "repeated: it was accepted before, with the same bytes") {
			t.Errorf("unexpected output %s", got.stdout)
		}
	})
}
