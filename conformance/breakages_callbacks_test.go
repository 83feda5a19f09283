package conformance

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
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

// stripped removes headers.
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

// rewritten replaces a string in the body and keeps the signature.
func rewritten(from, to string) func(*breaker, probe.Delivery) []probe.Delivery {
	return sent(func(d *probe.Delivery) bool {
		changed := bytes.ReplaceAll(d.Body, []byte(from), []byte(to))
		different := !bytes.Equal(changed, d.Body)
		d.Body = changed
		return different
	})
}

// again changes deliveries from the second attempt on.
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

// seal signs a delivery with a secret as the service does.
func seal(d *probe.Delivery, secret string) {
	d.Header.Set("X-Svc-Signature", "hmac-sha256-v1="+hex.EncodeToString(mac(sha256.New, secret, d.Body)))
	sealStandard(d, secret)
}

// sealStandard adds only the Standard Webhooks signature.
func sealStandard(d *probe.Delivery, secret string) {
	over := d.Header.Get("Webhook-Id") + "." + d.Header.Get("Webhook-Timestamp") + "." + string(d.Body)
	d.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac(sha256.New, secret, []byte(over))))
}

// genuine reports whether a delivery is signed with the secret that most cases use.
func genuine(d *probe.Delivery) bool {
	return d.Header.Get("X-Svc-Signature") == "hmac-sha256-v1="+hex.EncodeToString(mac(sha256.New, secret, d.Body))
}

// resealed changes signed deliveries and signs them again, so that checking the signature does not
// detect the fault.
func resealed(change func(d *probe.Delivery)) func(*breaker, probe.Delivery) []probe.Delivery {
	return sent(func(d *probe.Delivery) bool {
		if !genuine(d) {
			return false
		}
		before := *d
		before.Header = d.Header.Clone()
		change(d)
		seal(d, secret)
		return !bytes.Equal(before.Body, d.Body) || !maps.EqualFunc(before.Header, d.Header, slices.Equal)
	})
}

// recorded changes the record in a callback and signs it again.
func recorded(change func(record map[string]any)) func(*breaker, probe.Delivery) []probe.Delivery {
	return resealed(func(d *probe.Delivery) {
		decoder := json.NewDecoder(bytes.NewReader(d.Body))
		decoder.UseNumber()
		var record map[string]any
		if decoder.Decode(&record) == nil {
			change(record)
			d.Body, _ = json.Marshal(record)
		}
	})
}

// comingAgain repeats every delivery, some time after its response.
func comingAgain(by time.Duration) func(*breaker, probe.Delivery) []probe.Delivery {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // a receiver of the test's own
	return func(b *breaker, d probe.Delivery) []probe.Delivery {
		header := d.Header.Clone()
		if header.Get("X-Come-Again") != "" {
			header.Del("X-Come-Again")
			d.Header = header
			return []probe.Delivery{d}
		}
		b.wrong()
		time.AfterFunc(by, func() {
			request, err := http.NewRequest(d.Method, "https://"+header.Get("Host")+header.Get("Target"), bytes.NewReader(d.Body))
			if err != nil {
				return
			}
			for _, name := range []string{"Host", "Target", "Content-Length"} {
				header.Del(name)
			}
			header.Set("X-Come-Again", "yes")
			request.Header = header
			if answer, err := client.Do(request); err == nil {
				answer.Body.Close()
			}
		})
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
	{name: "an accepted callback is delivered again", part: "D5.2.success", deliver: func(b *breaker, d probe.Delivery) []probe.Delivery {
		b.wrong()
		return []probe.Delivery{d, d}
	}},
	{name: "an accepted callback is delivered again after 800 ms", part: "D5.2.success", deliver: comingAgain(800 * time.Millisecond)},
	{name: "the signature is by another key", part: "4.1.callbackSecret", deliver: sent(func(d *probe.Delivery) bool {
		signed := genuine(d)
		if signed {
			seal(d, "another key")
		}
		return signed
	})},
	{name: "the signature is in base64", part: "5.3.header", deliver: reworded("X-Svc-Signature", func(s string) string {
		digest, _ := hex.DecodeString(strings.TrimPrefix(s, "hmac-sha256-v1="))
		return "hmac-sha256-v1=" + base64.StdEncoding.EncodeToString(digest)
	})},
	{name: "the signature is over id, time and body", part: "5.3.raw", deliver: sent(func(d *probe.Delivery) bool {
		signed := genuine(d)
		if signed {
			over := d.Header.Get("Webhook-Id") + "." + d.Header.Get("Webhook-Timestamp") + "." + string(d.Body)
			d.Header.Set("X-Svc-Signature", "hmac-sha256-v1="+hex.EncodeToString(mac(sha256.New, secret, []byte(over))))
		}
		return signed
	})},
	{name: "the signature is over the body as it would be written again", part: "5.3.raw", deliver: sent(func(d *probe.Delivery) bool {
		var body map[string]any
		if !genuine(d) || json.Unmarshal(d.Body, &body) != nil {
			return false
		}
		again, _ := json.MarshalIndent(body, "", "  ")
		d.Header.Set("X-Svc-Signature", "hmac-sha256-v1="+hex.EncodeToString(mac(sha256.New, secret, again)))
		return true
	})},
	{name: "webhook-signature is by another key", part: "D5.4.webhook", deliver: sent(func(d *probe.Delivery) bool {
		signed := genuine(d)
		if signed {
			sealStandard(d, "another key")
		}
		return signed
	})},
	{name: "webhook-timestamp is that of an hour ago, under its signature", part: "D5.4.webhook", deliver: resealed(func(d *probe.Delivery) {
		d.Header.Set("Webhook-Timestamp", probe.Timestamp(time.Now().Add(-time.Hour)))
	})},
	{name: "webhook-timestamp is that of an hour to come, under its signature", part: "D5.4.webhook", deliver: resealed(func(d *probe.Delivery) {
		d.Header.Set("Webhook-Timestamp", probe.Timestamp(time.Now().Add(time.Hour)))
	})},
	{name: "webhook-id is another, under its signature", part: "D5.4.webhook", deliver: resealed(func(d *probe.Delivery) { d.Header.Set("Webhook-Id", anotherID) })},
	{name: "the output of a callback differs from the record, with a valid signature", part: "6.3.payload", deliver: recorded(func(record map[string]any) {
		record["output"] = map[string]any{"uuid": "00000000-0000-4000-8000-000000000000"}
	})},
	{name: "the time of a callback differs from the record, with a valid signature", part: "6.3.payload", deliver: recorded(func(record map[string]any) {
		record["updatedAt"] = "2026-01-01T00:00:00.000Z"
	})},
	{name: "a callback costs nothing, under its signature", part: "6.3.payload", deliver: recorded(func(record map[string]any) { record["totalUsage"] = 0 })},
	{name: "a callback is of another execution, under its signature", part: "6.3.id", deliver: resealed(func(d *probe.Delivery) {
		d.Body = bytes.ReplaceAll(d.Body, []byte(d.Header.Get("X-Svc-Execution-Id")), []byte(anotherID))
		d.Header.Set("X-Svc-Execution-Id", anotherID)
		d.Header.Set("Webhook-Id", anotherID)
	})},
	{name: "a callback knows of its own delivery, under its signature", part: "6.3.payload", deliver: recorded(func(record map[string]any) {
		if callback, ok := record["callback"].(map[string]any); ok {
			callback["attemptCount"], callback["lastAttemptAt"] = 1, record["updatedAt"]
		}
	})},
	{name: "no callback comes", part: "4.1.callbackUrl", slow: true, deliver: func(b *breaker, _ probe.Delivery) []probe.Delivery {
		b.wrong()
		return nil
	}},
	{name: "a callback comes ten seconds late", part: "6.3.terminal", slow: true, deliver: func(b *breaker, d probe.Delivery) []probe.Delivery {
		b.wrong()
		<-time.After(10 * time.Second) // the injected fault is this delay
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
	{name: "another attempt has another execution's id", part: "D5.1.frozen", deliver: again(func(d *probe.Delivery) { d.Header.Set("X-Svc-Execution-Id", anotherID) })},
	{name: "another attempt is not signed", part: "D5.1.frozen", deliver: again(func(d *probe.Delivery) { d.Header.Del("X-Svc-Signature") })},
	{name: "another attempt is signed by another key", part: "D5.1.frozen", deliver: again(func(d *probe.Delivery) { seal(d, "another key") })},
	{name: "the time differs in a later attempt, with a valid signature", part: "D5.1.frozen", deliver: again(func(d *probe.Delivery) {
		d.Body = regexp.MustCompile(`"updatedAt":"[^"]*"`).ReplaceAll(d.Body, []byte(`"updatedAt":"2099-01-01T00:00:00.000Z"`))
		seal(d, secret)
	})},
	{name: "another attempt comes twice", part: "D5.3.retry", deliver: func() func(*breaker, probe.Delivery) []probe.Delivery {
		once := again(func(*probe.Delivery) {})
		return func(b *breaker, d probe.Delivery) []probe.Delivery {
			before := b.acted.Load()
			arrived := once(b, d)
			if b.acted.Load() > before {
				arrived = append(arrived, d)
			}
			return arrived
		}
	}()},
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
