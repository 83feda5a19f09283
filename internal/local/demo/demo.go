// Package demo is the small upstream that `weft dev` runs, so that the examples of the docs can
// call something real without the internet.
//
// The upstream's responses are JSON and depend only on the request, except for /flaky, which counts
// requests. Package demo does not depend on the rest of the service and is never part of `weft
// serve`. The upstream must listen on loopback only, because it echoes requests.
package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/kit/wait"
)

const (
	maxBody  = 1 << 20
	maxDelay = 60 * time.Second
	maxKeys  = 1000 // counters that /flaky keeps
)

// Handler serves the demo upstream.
func Handler() http.Handler {
	mux := http.NewServeMux()
	counters := &flaky{counts: map[string]int{}}
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("GET /prices", listPrices)
	mux.HandleFunc("GET /prices/{symbol}", func(w http.ResponseWriter, r *http.Request) { price(w, r.PathValue("symbol")) })
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("GET /slow", slow)
	mux.HandleFunc("GET /flaky", counters.serve)
	mux.HandleFunc("/status/{code}", answerStatus)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "no such demo endpoint; GET / lists them")
	})
	return mux
}

// endpoints is the response of GET /.
var endpoints = map[string]string{
	"GET /prices":             "all symbols; with ?symbol=eth the same as GET /prices/eth",
	"GET /prices/{symbol}":    "the price of BTC, ETH, SOL or USDC, always the same",
	"ANY /echo":               "the request as received: method, query, headers and JSON or text body",
	"GET /slow?ms=1000":       "responds after this many milliseconds, at most 60000",
	"GET /flaky?fail=2&key=a": "fails with 503 this many times, succeeds once, then starts over; counted per key",
	"ANY /status/{code}":      "responds with this status, 200 to 599",
}

func index(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"name": "Weft demo upstream", "endpoints": endpoints})
}

// prices are strings, as monetary amounts should be.
var prices = map[string]string{"BTC": "64250.10", "ETH": "3120.55", "SOL": "148.02", "USDC": "1.00"}

func listPrices(w http.ResponseWriter, r *http.Request) {
	if symbol := r.URL.Query().Get("symbol"); symbol != "" {
		price(w, symbol)
		return
	}
	write(w, http.StatusOK, map[string][]string{"symbols": slices.Sorted(maps.Keys(prices))})
}

func price(w http.ResponseWriter, symbol string) {
	symbol = strings.ToUpper(symbol)
	amount, ok := prices[symbol]
	if !ok {
		fail(w, http.StatusNotFound, "no price for this symbol; there are BTC, ETH, SOL and USDC")
		return
	}
	write(w, http.StatusOK, map[string]any{
		"symbol": symbol,
		"data":   map[string]string{"price": amount, "currency": "USD", "asOf": "2026-01-01T00:00:00.000Z"},
	})
}

func echo(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "the body may have at most 1 MiB")
		return
	}
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	query := map[string][]string(r.URL.Query())
	var body any
	switch {
	case len(data) == 0:
	case json.Valid(data):
		body = json.RawMessage(data)
	default:
		body = string(data)
	}
	write(w, http.StatusOK, map[string]any{"method": r.Method, "query": query, "headers": headers, "body": body})
}

func slow(w http.ResponseWriter, r *http.Request) {
	delay, ok := number(r, "ms", 1000, int(maxDelay/time.Millisecond))
	if !ok {
		fail(w, http.StatusBadRequest, "ms must be a number from 0 to 60000")
		return
	}
	if wait.For(r.Context(), time.Duration(delay)*time.Millisecond) == nil {
		write(w, http.StatusOK, map[string]int{"waitedMs": delay})
	}
}

// flaky counts the requests of each key.
type flaky struct {
	mutex  sync.Mutex
	counts map[string]int
}

func (f *flaky) serve(w http.ResponseWriter, r *http.Request) {
	failures, ok := number(r, "fail", 2, 100)
	if !ok {
		fail(w, http.StatusBadRequest, "fail must be a number from 0 to 100")
		return
	}
	attempt := f.next(r.URL.Query().Get("key"), failures)
	if attempt <= failures {
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("failure %d of %d, as asked", attempt, failures))
		return
	}
	write(w, http.StatusOK, map[string]int{"attempt": attempt})
}

// next returns the number of this request in its round of failures and one success.
func (f *flaky) next(key string, failures int) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.counts) >= maxKeys {
		clear(f.counts)
	}
	f.counts[key]++
	attempt := f.counts[key]
	if attempt > failures {
		delete(f.counts, key)
	}
	return attempt
}

func answerStatus(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.PathValue("code"))
	switch {
	case err != nil || code < 200 || code > 599:
		fail(w, http.StatusBadRequest, "the status must be a number from 200 to 599")
	case code == http.StatusNoContent || code == http.StatusNotModified:
		w.WriteHeader(code)
	default:
		write(w, code, map[string]any{"status": code, "text": http.StatusText(code)})
	}
}

// number parses a query parameter from 0 to limit.
func number(r *http.Request, name string, absent, limit int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n <= limit
}

func fail(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]string{"error": message})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
