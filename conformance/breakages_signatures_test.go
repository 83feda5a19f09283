package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// forgiving makes signatures over a wrong message valid, for messages of the given kinds.
func forgiving(messages func(c *call) [][]byte) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		if !b.honest(c) {
			for _, message := range messages(c) {
				if b.signed(c, message) {
					b.sign(c)
					break
				}
			}
		}
		return b.pass(c)
	}
}

// careless replaces invalid signatures with valid ones under a condition.
func careless(wrong func(b *breaker, c *call) bool) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		if wrong(b, c) {
			b.sign(c)
		}
		return b.pass(c)
	}
}

// age returns the age of the timestamp of a call in seconds.
func age(c *call) int64 {
	at, err := strconv.ParseInt(c.header.Get("X-Sdk-Timestamp"), 10, 64)
	if err != nil {
		return 0
	}
	return time.Now().Unix() - at
}

// spoil invalidates the signature of a call.
func (b *breaker) spoil(c *call) {
	b.wrong()
	c.header.Set("X-Sdk-Signature", base64.StdEncoding.EncodeToString(make([]byte, 64)))
}

// message returns the message that the signature of a call must cover, with some changes.
func message(c *call, method, target, timestamp string, body []byte) []byte {
	if timestamp == "" {
		timestamp = c.header.Get("X-Sdk-Timestamp")
	}
	return probe.Message(method, target, timestamp, body)
}

var signatureBreakages = []breakage{
	{name: "any signature is accepted", part: "5.2.secret", do: careless(func(b *breaker, c *call) bool {
		return c.header.Get("X-Sdk-Signature") != "" && !b.honest(c)
	})},
	{name: "a signature of another key is accepted", part: "5.2.secret", do: careless(func(b *breaker, c *call) bool {
		b.mu.Lock()
		keys := slices.Collect(maps.Values(b.keys))
		b.mu.Unlock()
		return !b.honest(c) && slices.ContainsFunc(keys, func(key probe.Credentials) bool {
			return b.signedBy(key, c, message(c, c.Method, c.target, "", c.body))
		})
	})},
	{name: "a signature over the whole address is accepted", part: "5.2.path", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, "http://host"+c.target, "", c.body)}
	})},
	{name: "a signature over a path in other letters is accepted", part: "5.2.path", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, strings.Replace(c.target, "components", "Components", 1), "", c.body)}
	})},
	{name: "a signature over another order of members is accepted", part: "D2.2.nothing", do: careless(func(b *breaker, c *call) bool {
		const other = `{"config":{},"input":{"data":"\u00e4/"},"module":"HASH","attempts":1}`
		return strings.HasPrefix(string(c.body), `{"module":"HASH"`) && b.signed(c, message(c, c.Method, c.target, "", []byte(other)))
	})},
	{name: "a signature over another method is accepted", part: "5.2.method", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, "PUT", c.target, "", c.body), message(c, strings.ToLower(c.Method), c.target, "", c.body)}
	})},
	{name: "a signature over the path without its query is accepted", part: "5.2.path", do: forgiving(func(c *call) [][]byte {
		path, _, _ := strings.Cut(c.target, "?")
		return [][]byte{message(c, c.Method, path, "", c.body)}
	})},
	{name: "a signature over another query is accepted", part: "5.2.path", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, c.target+"?limit=5", "", c.body)}
	})},
	{name: "a signature over a path with a slash at its end is accepted", part: "5.2.path", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, c.target+"/", "", c.body)}
	})},
	{name: "a signature over another timestamp is accepted", part: "5.2.timestamp", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, c.target, c.header.Get("X-Sdk-Timestamp")+"0", c.body)}
	})},
	{name: "a signature over another body is accepted", part: "5.2.body", do: careless(func(b *breaker, c *call) bool {
		return c.Method == http.MethodPost && len(c.body) > 0 && c.header.Get("X-Sdk-Signature") != "" && !b.honest(c)
	})},
	{name: "a signature that leaves the body out is accepted", part: "D2.2.nothing", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, c.target, "", nil)}
	})},
	{name: "a signature over unescaped JSON is accepted", part: "D2.2.nothing", do: forgiving(func(c *call) [][]byte {
		return [][]byte{message(c, c.Method, c.target, "", bytes.ReplaceAll(c.body, []byte(`\u00e4`), []byte("ä")))}
	})},
	{name: "a signature over a body with white space is accepted for one without", part: "D2.2.compact", do: careless(func(b *breaker, c *call) bool {
		return string(c.body) == compact && b.signed(c, message(c, c.Method, c.target, "", []byte(spaced)))
	})},
	{name: "a body with white space that was signed compact is refused", part: "D2.2.compact", do: func(b *breaker, c *call) *answer {
		var into bytes.Buffer
		if !b.honest(c) && json.Compact(&into, c.body) == nil && b.signed(c, message(c, c.Method, c.target, "", into.Bytes())) {
			b.spoil(c)
		}
		return b.pass(c)
	}},
	{name: "an empty body signed as {} is refused", part: "5.2.empty", do: func(b *breaker, c *call) *answer {
		if len(c.body) == 0 && c.header.Get("X-Sdk-Signature") != "" {
			b.spoil(c)
		}
		return b.pass(c)
	}},
	{name: "a body beyond ASCII is refused", part: "5.2.utf8", do: func(b *breaker, c *call) *answer {
		if bytes.ContainsRune(c.body, '€') {
			b.spoil(c)
		}
		return b.pass(c)
	}},
	{name: "a timestamp of 45 seconds ago is accepted", part: "5.2.window", do: careless(func(b *breaker, c *call) bool {
		return age(c) > 30 && age(c) <= 45 && b.honest(c)
	})},
	{name: "a timestamp of 31 seconds ago is accepted", part: "8.6.timestamp", do: careless(func(b *breaker, c *call) bool {
		return age(c) == 31 && b.honest(c)
	})},
	{name: "a timestamp of 30 seconds ago is refused", part: "8.6.timestamp", slow: true, do: func(b *breaker, c *call) *answer {
		if age(c) == 30 {
			b.spoil(c)
		}
		return b.pass(c)
	}},
	{name: "a timestamp in milliseconds is accepted", part: "D2.4.form", do: careless(func(b *breaker, c *call) bool {
		return len(c.header.Get("X-Sdk-Timestamp")) == 13 && b.honest(c)
	})},
	{name: "a timestamp of 29 seconds ago is refused", part: "8.6.timestamp", do: func(b *breaker, c *call) *answer {
		if age(c) >= 28 && age(c) <= 30 {
			b.spoil(c)
		}
		return b.pass(c)
	}},
	{name: "whatever is old is accepted", part: "5.2.window", do: careless(func(b *breaker, c *call) bool { return age(c) > 30 && b.honest(c) })},
	{name: "a timestamp a second ahead is accepted", part: "5.2.window", slow: true, do: careless(func(b *breaker, c *call) bool { return age(c) == -1 && b.honest(c) })},
	{name: "the future is accepted", part: "5.2.window", slow: true, do: careless(func(b *breaker, c *call) bool { return age(c) < 0 && b.honest(c) })},
	{name: "a timestamp with a plus is accepted", part: "D2.4.form", do: careless(func(_ *breaker, c *call) bool {
		return strings.HasPrefix(c.header.Get("X-Sdk-Timestamp"), "+")
	})},
	{name: "a timestamp with a zero before it is accepted", part: "D2.4.form", do: careless(func(_ *breaker, c *call) bool {
		return strings.HasPrefix(c.header.Get("X-Sdk-Timestamp"), "0") && len(c.header.Get("X-Sdk-Timestamp")) > 1
	})},
	{name: "base64 for URLs is accepted", part: "D2.3", do: func(b *breaker, c *call) *answer {
		signature := c.header.Get("X-Sdk-Signature")
		if standard := strings.NewReplacer("-", "+", "_", "/").Replace(signature); standard != signature {
			b.wrong()
			c.header.Set("X-Sdk-Signature", standard)
		}
		return b.pass(c)
	}},
	{name: "base64 without padding is accepted", part: "D2.3", do: func(b *breaker, c *call) *answer {
		if signature := c.header.Get("X-Sdk-Signature"); len(signature) == 86 {
			b.wrong()
			c.header.Set("X-Sdk-Signature", signature+"==")
		}
		return b.pass(c)
	}},
	{name: "a request without a signature is accepted", part: "5.2.headers", do: careless(func(_ *breaker, c *call) bool {
		return c.header.Get("X-Sdk-Signature") == "" && c.header.Get("X-Api-Key") != ""
	})},
	{name: "a request without a timestamp is accepted", part: "5.2.headers", do: careless(func(_ *breaker, c *call) bool {
		return c.header.Get("X-Sdk-Timestamp") == ""
	})},
	{name: "a delivery to a hook is accepted whatever it is signed with", part: "D8.15.verified", do: func(b *breaker, c *call) *answer {
		if c.operation == "receiveHook" && c.header.Get("X-Hub-Signature-256") != "" {
			b.wrong()
			c.header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(sha256.New, hookSecret, c.body)))
		}
		return b.pass(c)
	}},
	{name: "a delivery to a hook is accepted unsigned", part: "D8.15.verified", do: func(b *breaker, c *call) *answer {
		if c.operation == "receiveHook" && c.header.Get("X-Hub-Signature-256") == "" {
			b.wrong()
			c.header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(sha256.New, hookSecret, c.body)))
		}
		return b.pass(c)
	}},
	{name: "any password signs in", part: "D9.2.sessions", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if c.target == probe.Sessions && a != nil && a.status == http.StatusUnauthorized {
			b.wrong()
			c.body, _ = json.Marshal(map[string]string{"email": b.own.AdminEmail, "password": b.own.AdminPassword})
			return b.pass(c)
		}
		return a
	}},
	{name: "a stream opens without a key", part: "4.auth", do: func(b *breaker, c *call) *answer {
		if strings.HasSuffix(c.target, "/stream") && c.header.Get("X-Api-Key") == "" {
			b.sign(c, b.own)
		}
		return b.pass(c)
	}},
	{name: "an unknown key is accepted", part: "D2.5.same", do: ofNobody},
	{name: "a revoked key is accepted", part: "5.1.4", do: ofNobody},
	{name: "a revoked key opens streams", part: "5.1.4", slow: true, do: func(b *breaker, c *call) *answer {
		if strings.HasSuffix(c.target, "/stream") {
			return ofNobody(b, c)
		}
		return b.pass(c)
	}},
	{name: "the same signed bytes are refused the second time", part: "D2.9", do: func(b *breaker, c *call) *answer {
		signature := c.header.Get("X-Sdk-Signature")
		b.mu.Lock()
		again := b.kept[signature] != "" && signature != ""
		b.kept[signature] = "seen"
		b.mu.Unlock()
		if again {
			b.spoil(c)
		}
		return b.pass(c)
	}},
	{name: "a restricted key reaches every workflow", part: "5.1.3", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == http.StatusForbidden && c.header.Get("X-Api-Key") != "" {
			b.sign(c, b.own)
			return b.pass(c)
		}
		return a
	}},
	{name: "a member may do whatever the key may", part: "D2.11.role", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == http.StatusForbidden && c.header.Get(headerWorkspace) != "" {
			b.sign(c, b.own)
			return b.pass(c)
		}
		return a
	}},
	{name: "the log of a client's mistake is kept from it", part: "D2.5.sha", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == http.StatusUnauthorized {
			b.edit(a, func(p map[string]any) bool {
				_, told := p["expectedMessageSha256"]
				p["expectedMessageSha256"] = strings.Repeat("0", 64)
				return told
			})
		}
		return a
	}},
	{name: "a wrong key is distinguished from a wrong signature", part: "D2.5.same", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		b.mu.Lock()
		_, known := b.keys[c.header.Get("X-Api-Key")]
		b.mu.Unlock()
		if a != nil && a.status == http.StatusUnauthorized && !known {
			b.edit(a, func(p map[string]any) bool {
				p["detail"], p["message"] = "there is no such key", "there is no such key"
				return true
			})
		}
		return a
	}},
}

// ofNobody authenticates a request with an unknown key as the workspace itself.
func ofNobody(b *breaker, c *call) *answer {
	a := b.pass(c)
	b.mu.Lock()
	_, known := b.keys[c.header.Get("X-Api-Key")]
	b.mu.Unlock()
	if a != nil && a.status == http.StatusUnauthorized && !known && c.header.Get("X-Api-Key") != "" {
		b.sign(c, b.own)
		return b.pass(c)
	}
	return a
}
