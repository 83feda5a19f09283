package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func ask(t *testing.T, handler http.Handler, method, target, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	request.Header.Set("X-Test", "1")
	handler.ServeHTTP(w, request)
	if w.Body.Len() > 0 && (w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes())) {
		t.Errorf("%s %s answers %s: %s", method, target, w.Header().Get("Content-Type"), w.Body)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestDemoResponsesDependOnTheRequestOnly(t *testing.T) {
	handler := Handler()
	for _, c := range []struct {
		method, target, body string
		status               int
		answer               string
	}{
		{"GET", "/prices/ETH", "", 200, `{"data":{"asOf":"2026-01-01T00:00:00.000Z","currency":"USD","price":"3120.55"},"symbol":"ETH"}`},
		{"GET", "/prices/eth", "", 200, `{"data":{"asOf":"2026-01-01T00:00:00.000Z","currency":"USD","price":"3120.55"},"symbol":"ETH"}`},
		{"GET", "/prices/XYZ", "", 404, `{"error":"no price for this symbol; there are BTC, ETH, SOL and USDC"}`},
		{"GET", "/prices", "", 200, `{"symbols":["BTC","ETH","SOL","USDC"]}`},
		{"GET", "/prices?symbol=usdc", "", 200, `{"data":{"asOf":"2026-01-01T00:00:00.000Z","currency":"USD","price":"1.00"},"symbol":"USDC"}`},
		{"GET", "/prices?symbol=XYZ", "", 404, `{"error":"no price for this symbol; there are BTC, ETH, SOL and USDC"}`},
		{"POST", "/echo?a=1", `{"b":12345678901234567890}`, 200, `{"body":{"b":12345678901234567890},"headers":{"x-test":"1"},"method":"POST","query":{"a":["1"]}}`},
		{"PUT", "/echo", `plain`, 200, `{"body":"plain","headers":{"x-test":"1"},"method":"PUT","query":{}}`},
		{"GET", "/status/418", "", 418, `{"status":418,"text":"I'm a teapot"}`},
		{"GET", "/status/204", "", 204, ``},
		{"GET", "/status/99", "", 400, `{"error":"the status must be a number from 200 to 599"}`},
		{"GET", "/slow?ms=60001", "", 400, `{"error":"ms must be a number from 0 to 60000"}`},
		{"GET", "/flaky?fail=x", "", 400, `{"error":"fail must be a number from 0 to 100"}`},
		{"GET", "/nothing", "", 404, `{"error":"no such demo endpoint; GET / lists them"}`},
		{"POST", "/echo", strings.Repeat("a", maxBody+1), 413, `{"error":"the body may have at most 1 MiB"}`},
	} {
		if status, answer := ask(t, handler, c.method, c.target, c.body); status != c.status || answer != c.answer {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.target, status, answer, c.status, c.answer)
		}
	}
	if status, answer := ask(t, handler, "GET", "/", ""); status != 200 || !strings.Contains(answer, "/flaky") {
		t.Errorf("GET /: %d %s", status, answer)
	}
}

func TestFlakyFailsAsConfiguredAndStartsOver(t *testing.T) {
	handler := Handler()
	for round := range 2 {
		for i, want := range []int{503, 503, 200} {
			if status, answer := ask(t, handler, "GET", "/flaky?fail=2&key=a", ""); status != want {
				t.Errorf("round %d, request %d: %d %s, want %d", round, i+1, status, answer, want)
			}
		}
	}
	ask(t, handler, "GET", "/flaky?key=b", "")
	if status, _ := ask(t, handler, "GET", "/flaky?fail=0&key=c", ""); status != 200 {
		t.Errorf("a new key is counted with others: %d", status)
	}
	for i := range 2 * maxKeys {
		ask(t, handler, "GET", "/flaky?key=k"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "")
	}
}

func TestSlowWaitsUntilTheClientDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if status, answer := ask(t, Handler(), "GET", "/slow?ms=1500", ""); status != 200 || answer != `{"waitedMs":1500}` || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%d %s after %s", status, answer, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/slow?ms=60000", nil))
		if time.Since(began) != time.Second {
			t.Errorf("it continued for %s after the client had disconnected", time.Since(began)-time.Second)
		}
	})
}
