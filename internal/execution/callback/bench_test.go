package callback

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/secret/signature"
)

// BenchmarkPlainSignedPosts is the baseline for the delivery benchmarks: it sends signed requests
// with Go's client and stores nothing.
func BenchmarkPlainSignedPosts(b *testing.B) {
	server := plainServer(b, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	body := bytes.Repeat([]byte("x"), 600)
	work := make(chan struct{})
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			for range work {
				request, _ := http.NewRequest(http.MethodPost, server, bytes.NewReader(body))
				request.Header.Set("X-Svc-Signature", signature.CallbackV1("secret", body))
				response, err := client.Do(request)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	running.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
}

func BenchmarkDeliveriesThroughTheQueue(b *testing.B) { benchmarkDeliveries(b, false) }

func BenchmarkLocalDeliveries(b *testing.B) { benchmarkDeliveries(b, true) }

// benchmarkDeliveries finishes executions in batches, as a busy runner does.
func benchmarkDeliveries(b *testing.B, here bool) {
	bench := newBench(b, options{})
	secret := "secret"
	server := plainServer(b, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	wishes := make([]wish, b.N)
	for i := range wishes {
		wishes[i] = wish{url: server, secret: &secret}
	}
	finals := bench.accept(b, wishes...)
	b.ResetTimer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			<-bench.attempts
		}
	}()
	for from := 0; from < b.N; from += 64 {
		bench.finish(b, here, finals[from:min(from+64, b.N)]...)
	}
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
