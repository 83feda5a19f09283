package conformance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// altered changes a request and signs it again before the service receives it.
func altered(change func(c *call) bool) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		if b.honest(c) && change(c) {
			b.sign(c)
		}
		return b.pass(c)
	}
}

// worded replaces a string in the body of a submission.
func worded(from, to string) func(*breaker, *call) *answer {
	return altered(func(c *call) bool {
		changed := bytes.ReplaceAll(c.body, []byte(from), []byte(to))
		different := !bytes.Equal(changed, c.body)
		c.body = changed
		return different
	})
}

// queried changes a query parameter.
func queried(name, from, to string) func(*breaker, *call) *answer {
	return altered(func(c *call) bool {
		path, raw, _ := strings.Cut(c.target, "?")
		query, err := url.ParseQuery(raw)
		if err != nil || c.Method != http.MethodGet || query.Get(name) != from || len(query[name]) > 1 {
			return false
		}
		if query.Set(name, to); to == "" {
			query.Del(name)
		}
		c.target = path + "?" + query.Encode()
		return true
	})
}

// sized changes bodies of one length.
func sized(from int, change func([]byte) []byte) func(*breaker, *call) *answer {
	return altered(func(c *call) bool {
		if len(c.body) != from {
			return false
		}
		c.body = change(c.body)
		return true
	})
}

var remaining = regexp.MustCompile(`r=(\d+)`)

// leftOver changes the remaining requests in RateLimit after an operation.
func leftOver(by int, which func(c *call) bool) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && which(c) && a.header.Get("RateLimit") != "" {
			b.wrong()
			a.header.Set("RateLimit", remaining.ReplaceAllStringFunc(a.header.Get("RateLimit"), func(r string) string {
				n, _ := strconv.Atoi(r[2:])
				return "r=" + strconv.Itoa(max(n+by, 0))
			}))
		}
		return a
	}
}

// retried changes the Retry-After of rejected requests.
func retried(change func(http.Header)) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == http.StatusTooManyRequests {
			b.wrong()
			change(a.header)
		}
		return a
	}
}

// generous hides some rejections: for each key, it replaces one rejection per second that has the
// status and the reason by the previous successful response.
func generous(status int, reason string) func(*breaker, *call) *answer {
	var mu sync.Mutex
	last, given := map[string]*answer{}, map[string]int64{}
	return func(b *breaker, c *call) *answer {
		key := c.header.Get("X-Api-Key")
		a := b.pass(c)
		mu.Lock()
		defer mu.Unlock()
		switch now := time.Now().Unix(); {
		case a == nil || a.events != nil:
		case a.status == http.StatusOK:
			last[key] = a
		case a.status == status && bytes.Contains(a.body, []byte(`"`+reason+`"`)) && last[key] != nil && given[key] != now:
			b.wrong()
			given[key] = now
			good := *last[key]
			good.header = good.header.Clone()
			good.header.Set("X-Request-Id", c.header.Get("X-Request-Id"))
			return &good
		}
		return a
	}
}

// impatient rejects a call whose wait ended before its execution finished.
func impatient(b *breaker, c *call) *answer {
	a := b.pass(c)
	if a != nil && a.status == http.StatusOK && c.operation == "executeComponent" && bytes.Contains(c.body, []byte(`"waitForMs":15000`)) && bytes.Contains(a.body, []byte(`"completed":false`)) {
		b.wrong()
		refusedBy(a, "inline_waits", "1")
	}
	return a
}

// refusedBy returns a rejection by a limit.
func refusedBy(a *answer, reason, pause string) {
	a.status = http.StatusTooManyRequests
	a.header.Set("Content-Type", "application/problem+json")
	a.header.Set("Retry-After", pause)
	a.body, _ = json.Marshal(map[string]any{
		"type": "urn:weft:problem:RATE_LIMITED", "title": "Too many requests", "status": a.status, "instance": "urn:weft:request:0", "detail": "Too many.",
		"message": "Too many.", "code": "RATE_LIMITED", "error": "RATE_LIMITED", "reason": reason, "retryable": true, "requestId": a.header.Get("X-Request-Id"),
	})
}

// sparing rejects the request that would exhaust a limit.
func sparing(limit, reason, pause string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a == nil || a.status != http.StatusOK || a.events != nil || !strings.Contains(a.header.Get("RateLimit"), `"`+limit+`";r=0`) {
			return a
		}
		b.wrong()
		refusedBy(a, reason, pause)
		return a
	}
}

// counted changes the number at a path of a response.
func counted(operation, from, to string, path ...string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a == nil || a.status != http.StatusOK || c.operation != operation {
			return a
		}
		b.edit(a, func(value map[string]any) bool {
			for _, name := range path[:len(path)-1] {
				value, _ = value[name].(map[string]any)
			}
			last := path[len(path)-1]
			there := value[last] == json.Number(from)
			if there {
				value[last] = json.Number(to)
			}
			return there
		})
		return a
	}
}

// planned changes a rate limit of a plan in the response of getLimits and in RateLimit-Policy.
func planned(unit, from, to string) func(*breaker, *call) *answer {
	change := counted("getLimits", from, to, "requestsPer"+strings.ToUpper(unit[:1])+unit[1:], "limit")
	return func(b *breaker, c *call) *answer {
		a := change(b, c)
		if policy := a.header.Get("RateLimit-Policy"); policy != "" {
			a.header.Set("RateLimit-Policy", strings.Replace(policy, `"`+unit+`";q=`+from+`;`, `"`+unit+`";q=`+to+`;`, 1))
		}
		return a
	}
}

// stingy rejects one request of each key within the limit.
func stingy() func(*breaker, *call) *answer {
	var mu sync.Mutex
	refusal := map[string]*answer{}
	return func(b *breaker, c *call) *answer {
		key := c.header.Get("X-Api-Key")
		a := b.pass(c)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case a == nil || a.events != nil:
		case a.status == http.StatusTooManyRequests:
			refusal[key] = a
		case a.status == http.StatusOK && refusal[key] != nil:
			b.wrong()
			again := refusal[key]
			delete(refusal, key)
			again.header = again.header.Clone()
			again.body = bytes.ReplaceAll(again.body, []byte(again.header.Get("X-Request-Id")), []byte(c.header.Get("X-Request-Id")))
			again.header.Set("X-Request-Id", c.header.Get("X-Request-Id"))
			return again
		}
		return a
	}
}

func executes(c *call) bool { return c.operation == "executeComponent" }

var limitBreakages = []breakage{
	{name: "4 attempts are accepted", part: "8.6.attempts", do: worded(`"attempts":4`, `"attempts":3`)},
	{name: "0 attempts are accepted", part: "8.6.attempts", do: worded(`"attempts":0`, `"attempts":1`)},
	{name: "3 attempts are refused", part: "4.1.attempts", do: worded(`"attempts":3`, `"attempts":4`)},
	{name: "3 attempts are 2", part: "4.1.attempts", do: worded(`"attempts":3`, `"attempts":2`)},
	{name: "2 attempts are the default", part: "4.1.attempts", do: worded(`"module":"API_CALL",`, `"attempts":2,"module":"API_CALL",`)},
	{name: "1 attempt is refused", part: "8.6.attempts", do: worded(`"attempts":1,"waitForMs":0`, `"attempts":0,"waitForMs":0`)},
	{name: "waitForMs 0 is refused", part: "8.6.waitForMs", do: worded(`"attempts":1,"waitForMs":0`, `"attempts":1,"waitForMs":-1`)},
	{name: "waitForMs 15001 is accepted", part: "8.6.waitForMs", do: worded(`"waitForMs":15001`, `"waitForMs":15000`)},
	{name: "waitForMs -1 is accepted", part: "8.6.waitForMs", do: worded(`"waitForMs":-1`, `"waitForMs":0`)},
	{name: "waitForMs 15000 is refused", part: "4.1.waitForMs", do: worded(`"waitForMs":15000`, `"waitForMs":15001`)},
	{name: "waitForMs is not read", part: "4.1.2", do: worded(`"waitForMs":15000`, `"waitForMs":0`)},
	{name: "who does not ask to wait waits", part: "4.1.1", do: worded(`"module":"RANDOM_UUID","input":{},"config":{}}`, `"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":5000}`)},
	{name: "a body of a byte more than 1 MiB is accepted", part: "D1.1.size", do: sized(1<<20+1, func([]byte) []byte {
		return []byte(`{"module":"RANDOM_UUID","input":{},"config":{}}`)
	})},
	{name: "a body of 1 MiB is refused", part: "D1.1.size", do: sized(1<<20, func(body []byte) []byte { return append(body, ' ') })},
	{name: "nesting of 65 is accepted", part: "D1.1.nesting", do: worded(strings.Repeat("[", 64)+strings.Repeat("]", 64), "[]")},
	{name: "nesting of 64 is refused", part: "D1.1.nesting", do: altered(func(c *call) bool {
		deep := strings.Repeat("[", 63) + strings.Repeat("]", 63)
		if !bytes.Contains(c.body, []byte(deep)) || bytes.Contains(c.body, []byte("["+deep)) {
			return false
		}
		c.body = bytes.ReplaceAll(c.body, []byte(deep), []byte("["+deep+"]"))
		return true
	})},
	{name: "a page of 101 is accepted", part: "D1.5.limit", do: queried("limit", "101", "100")},
	{name: "a page of 0 is accepted", part: "D1.5.limit", do: queried("limit", "0", "1")},
	{name: "a page of 100 is refused", part: "D1.5.limit", do: queried("limit", "100", "101")},
	{name: "a page has one too many", part: "D1.5.limit", do: queried("limit", "25", "26")},
	{name: "a page without a limit has 21", part: "D1.5.limit", do: altered(func(c *call) bool {
		if !strings.HasSuffix(c.target, "/components/executions") || c.Method != http.MethodGet {
			return false
		}
		c.target += "?limit=21"
		return true
	})},
	{name: "a cursor is not read", part: "D1.5.cursor", do: altered(func(c *call) bool {
		before, _, found := strings.Cut(c.target, "&cursor=")
		c.target = before
		return found
	})},
	{name: "21 callback headers are accepted", part: "D5.6", do: worded(`"X-20":"value-canary",`, "")},
	{name: "a callback header's name of 65 characters is accepted", part: "D5.6", do: worded(strings.Repeat("x", 65), strings.Repeat("x", 64))},
	{name: "a callback URL of 2049 characters is accepted", part: "D5.5", do: worded(strings.Repeat("x", 2048), "x")},
	{name: "http for a callback is accepted", part: "D5.5", do: worded(`"http://8.8.8.8/`, `"https://8.8.8.8/`)},
	{name: "an empty callback secret is accepted", part: "4.1.callbackSecret", do: worded(`"callbackSecret":""`, `"callbackSecret":"s"`)},
	{name: "a private address is accepted for a callback", part: "D5.5", do: worded("https://10.0.0.1/", "https://8.8.8.8/")},

	{name: "Retry-After is missing", part: "8.2", do: retried(func(h http.Header) { h.Del("Retry-After") })},
	{name: "Retry-After is 0", part: "8.2", do: retried(func(h http.Header) { h.Set("Retry-After", "0") })},
	{name: "Retry-After is a date", part: "D6.retry", slow: true, do: retried(func(h http.Header) { h.Set("Retry-After", time.Now().UTC().Format(http.TimeFormat)) })},
	{name: "Retry-After is too long", part: "D6.retry", slow: true, do: retried(func(h http.Header) { h.Set("Retry-After", "30") })},
	{name: "an execution counts once", part: "8.1", do: leftOver(1, executes)},
	{name: "an execution counts three times", part: "4.1.3", do: leftOver(-1, executes)},
	{name: "a read counts twice", part: "8.1", do: leftOver(-1, func(c *call) bool { return c.operation == "listComponents" })},
	{name: "one request more a second is let in", part: "8.2", do: generous(http.StatusTooManyRequests, "requests_per_second")},
	{name: "one request more a second is let in, whatever the plan", part: "8.plan", do: generous(http.StatusTooManyRequests, "requests_per_second")},
	{name: "one request less a second is let in", part: "8.plan", do: sparing("second", "requests_per_second", "1")},
	{name: "one request more an hour is let in", part: "8.custom", do: generous(http.StatusTooManyRequests, "requests_per_hour")},
	{name: "one request less an hour is let in", part: "8.custom", do: sparing("hour", "requests_per_hour", "3600")},
	{name: "starter may make 6 requests a second", part: "8.plan", do: planned("second", "5", "6")},
	{name: "starter may make 9,001 requests an hour", part: "8.plan", do: planned("hour", "9000", "9001")},
	{name: "growth may make 9 requests a second", part: "8.plan", do: planned("second", "10", "9")},
	{name: "growth may make 17,999 requests an hour", part: "8.plan", do: planned("hour", "18000", "17999")},
	{name: "professional may make 26 requests a second", part: "8.plan", do: planned("second", "25", "26")},
	{name: "professional may make 45,001 requests an hour", part: "8.plan", do: planned("hour", "45000", "45001")},
	{name: "growth has 201 credits a month", part: "8.credits", do: counted("getWorkspaceOfKey", "200", "201", "credits", "monthlyCredits")},
	{name: "growth may use 499 credits a month", part: "8.credits", do: counted("getWorkspaceOfKey", "500", "499", "credits", "usageLimit")},
	{name: "professional has 999 credits a month", part: "8.credits", do: counted("getWorkspaceOfKey", "1000", "999", "credits", "monthlyCredits")},
	{name: "professional may use 2,501 credits a month", part: "8.credits", do: counted("getWorkspaceOfKey", "2500", "2501", "credits", "usageLimit")},
	{name: "one credit more than the usage limit is let pass", part: "8.4", do: generous(http.StatusPaymentRequired, "credits_exhausted")},
	{name: "an execution beyond the storage of a month is let pass", part: "D7.6", do: generous(http.StatusPaymentRequired, "storage_exhausted")},
	{name: "39 calls of starter may wait", part: "D6.waits", do: counted("getLimits", "40", "39", "inlineWaits", "limit")},
	{name: "a call beyond those that wait is refused", part: "D6.waits", do: impatient},
	{name: "a wrong signature counts", part: "D6.refused", do: func() func(*breaker, *call) *answer {
		var mu sync.Mutex
		strange := 0
		return func(b *breaker, c *call) *answer {
			a := b.pass(c)
			mu.Lock()
			defer mu.Unlock()
			if a != nil && a.status == http.StatusUnauthorized {
				strange++
			}
			if a != nil && strange > 0 && a.header.Get("RateLimit") != "" {
				b.wrong()
				a.header.Set("RateLimit", remaining.ReplaceAllStringFunc(a.header.Get("RateLimit"), func(r string) string {
					n, _ := strconv.Atoi(r[2:])
					return "r=" + strconv.Itoa(max(n-strange, 0))
				}))
			}
			return a
		}
	}()},
	{name: "refused requests count", part: "D6.refused", do: func() func(*breaker, *call) *answer {
		var mu sync.Mutex
		refused := map[string]int{}
		return func(b *breaker, c *call) *answer {
			a := b.pass(c)
			mu.Lock()
			defer mu.Unlock()
			key := c.header.Get("X-Api-Key")
			if a != nil && a.status == http.StatusTooManyRequests {
				refused[key]++
			}
			if a == nil || refused[key] == 0 || a.header.Get("RateLimit") == "" {
				return a
			}
			b.wrong()
			a.header.Set("RateLimit", remaining.ReplaceAllStringFunc(a.header.Get("RateLimit"), func(r string) string {
				n, _ := strconv.Atoi(r[2:])
				return "r=" + strconv.Itoa(max(n-refused[key], 0))
			}))
			return a
		}
	}()},
	{name: "who waited as long as was said is refused", part: "8.2", do: stingy()},
	{name: "a limit is of each key", part: "8.workspace", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a == nil || c.header.Get("X-Api-Key") == "" {
			return a
		}
		b.mu.Lock()
		_, first := b.keys[c.header.Get("X-Api-Key")]
		b.mu.Unlock()
		if !first && a.header.Get("RateLimit") != "" {
			b.wrong()
			a.header.Set("RateLimit", `"second";r=4;t=1, "hour";r=8999;t=1`)
		}
		return a
	}},
	{name: "a limit is of all workspaces", part: "8.workspace", do: func() func(*breaker, *call) *answer {
		var mu sync.Mutex
		seen := map[string]bool{}
		return func(b *breaker, c *call) *answer {
			a := b.pass(c)
			mu.Lock()
			defer mu.Unlock()
			if seen[c.header.Get("X-Api-Key")] = true; len(seen) > 1 && a != nil && a.header.Get("RateLimit") != "" {
				b.wrong()
				a.header.Set("RateLimit", `"second";r=0;t=1, "hour";r=7000;t=1`)
			}
			return a
		}
	}()},
}
