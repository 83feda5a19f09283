package conformance

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// sent changes deliveries.
func sent(change func(d *probe.Delivery) bool) func(*breaker, probe.Delivery) []probe.Delivery {
	return func(b *breaker, d probe.Delivery) []probe.Delivery {
		d.Header = d.Header.Clone()
		if change(&d) {
			b.wrong()
		}
		return []probe.Delivery{d}
	}
}

// stripped leaves headers out.
func stripped(names ...string) func(*breaker, probe.Delivery) []probe.Delivery {
	return sent(func(d *probe.Delivery) bool {
		there := false
		for _, name := range names {
			there = there || d.Header.Get(name) != ""
			d.Header.Del(name)
		}
		return there
	})
}

// reworded changes the value of a header.
func reworded(name string, change func(string) string) func(*breaker, probe.Delivery) []probe.Delivery {
	return sent(func(d *probe.Delivery) bool {
		before := d.Header.Get(name)
		if before == "" {
			return false
		}
		d.Header.Set(name, change(before))
		return d.Header.Get(name) != before
	})
}

// rewritten changes a text in the body, whose signature stays.
func rewritten(from, to string) func(*breaker, probe.Delivery) []probe.Delivery {
	return sent(func(d *probe.Delivery) bool {
		changed := bytes.ReplaceAll(d.Body, []byte(from), []byte(to))
		different := !bytes.Equal(changed, d.Body)
		d.Body = changed
		return different
	})
}

// again changes what is sent from the second time on.
func again(change func(d *probe.Delivery)) func(*breaker, probe.Delivery) []probe.Delivery {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(b *breaker, d probe.Delivery) []probe.Delivery {
		mu.Lock()
		defer mu.Unlock()
		id := d.Header.Get("X-Svc-Execution-Id")
		if d.Header = d.Header.Clone(); seen[id] {
			b.wrong()
			change(&d)
		}
		seen[id] = true
		return []probe.Delivery{d}
	}
}

const anotherID = "0193f1c0-0000-7000-8000-000000000000"

var callbackBreakages = []breakage{
	{name: "a callback with a secret is not signed", part: "6.3.signature", deliver: stripped("X-Svc-Signature")},
	{name: "a callback is signed by the headers of Standard Webhooks only", part: "5.3.header", deliver: stripped("X-Svc-Signature")},
	{name: "a callback has no headers of Standard Webhooks", part: "D5.4.webhook", deliver: stripped("Webhook-Id", "Webhook-Timestamp", "Webhook-Signature")},
	{name: "a callback without a secret is signed", part: "2.2.signed", deliver: sent(func(d *probe.Delivery) bool {
		if d.Header.Get("X-Svc-Signature") != "" {
			return false
		}
		d.Header.Set("X-Svc-Signature", "hmac-sha256-v1="+strings.Repeat("0", 64))
		return true
	})},
	{name: "the signature is in capitals", part: "5.3.header", deliver: reworded("X-Svc-Signature", func(s string) string {
		return "hmac-sha256-v1=" + strings.ToUpper(strings.TrimPrefix(s, "hmac-sha256-v1="))
	})},
	{name: "the signature has another prefix", part: "5.3.header", deliver: reworded("X-Svc-Signature", func(s string) string {
		return strings.Replace(s, "hmac-sha256-v1=", "sha256=", 1)
	})},
	{name: "the signature is of another secret", part: "4.1.callbackSecret", deliver: reworded("X-Svc-Signature", func(string) string {
		return "hmac-sha256-v1=" + strings.Repeat("ab", 32)
	})},
	{name: "the body of a callback is altered", part: "5.3.raw", deliver: rewritten(`"status"`, `"status" `)},
	{name: "the output in a callback is altered", part: "5.3.raw", deliver: rewritten(`"completed":true`, `"completed": true`)},
	{name: "the last byte of a callback is missing", part: "6.3.payload", deliver: sent(func(d *probe.Delivery) bool {
		d.Body = d.Body[:len(d.Body)-1]
		return true
	})},
	{name: "a callback of FAILED says COMPLETED", part: "6.3.payload", deliver: rewritten(`"status":"FAILED"`, `"status":"COMPLETED"`)},
	{name: "a callback comes twice", part: "6.3.terminal", deliver: func(b *breaker, d probe.Delivery) []probe.Delivery {
		b.wrong()
		return []probe.Delivery{d, d}
	}},
	{name: "a callback that was taken comes again", part: "D5.2.success", deliver: func(b *breaker, d probe.Delivery) []probe.Delivery {
		b.wrong()
		return []probe.Delivery{d, d}
	}},
	{name: "no callback comes", part: "4.1.callbackUrl", slow: true, deliver: func(b *breaker, _ probe.Delivery) []probe.Delivery {
		b.wrong()
		return nil
	}},
	{name: "a callback comes ten seconds late", part: "6.3.terminal", slow: true, deliver: func(b *breaker, d probe.Delivery) []probe.Delivery {
		b.wrong()
		<-time.After(10 * time.Second) // it is what is wrong
		return []probe.Delivery{d}
	}},
	{name: "a callback comes before the end", part: "6.3.terminal", deliver: rewritten(`"status":"COMPLETED"`, `"status":"EXECUTING"`)},
	{name: "the value of a callback header is missing", part: "6.3.headers", deliver: stripped("X-Order")},
	{name: "the value of a callback header is another", part: "6.3.headers", deliver: reworded("X-Order", strings.ToUpper)},
	{name: "the value of a callback header is cut", part: "4.1.callbackHeaders", deliver: reworded("X-Order", func(s string) string { return s[:4] })},
	{name: "a callback has another execution's id", part: "6.3.id", deliver: reworded("X-Svc-Execution-Id", func(string) string { return anotherID })},
	{name: "a callback has no execution id", part: "6.3.id", deliver: stripped("X-Svc-Execution-Id")},
	{name: "a callback is a PUT", part: "D5.1.post", deliver: sent(func(d *probe.Delivery) bool {
		d.Method = http.MethodPut
		return true
	})},
	{name: "a callback is text", part: "D5.1.post", deliver: reworded("Content-Type", func(string) string { return "text/plain" })},
	{name: "another attempt has another body", part: "D5.1.frozen", deliver: again(func(d *probe.Delivery) { d.Body = append(bytes.Clone(d.Body), ' ') })},
	{name: "another attempt has another webhook-id", part: "D5.1.frozen", deliver: again(func(d *probe.Delivery) { d.Header.Set("Webhook-Id", anotherID) })},
	{name: "traceparent is another", part: "D1.6.traceparent", deliver: reworded("Traceparent", func(s string) string { return strings.Replace(s, "4bf92f", "000000", 1) })},
	{name: "another attempt does not come", part: "D5.3.retry", slow: true, deliver: func() func(*breaker, probe.Delivery) []probe.Delivery {
		var mu sync.Mutex
		seen := map[string]bool{}
		return func(b *breaker, d probe.Delivery) []probe.Delivery {
			mu.Lock()
			defer mu.Unlock()
			id := d.Header.Get("X-Svc-Execution-Id")
			if seen[id] {
				b.wrong()
				return nil
			}
			seen[id] = true
			return []probe.Delivery{d}
		}
	}()},
}
