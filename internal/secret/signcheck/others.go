package signcheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// Other is the message of a signer that makes one mistake.
type Other struct {
	Finding

	Message []byte
}

// Others returns the messages that result from the usual mistakes, without duplicates and without
// the two valid messages (over the body as sent, and over its compact form). host is the host of
// the service, as the caller calls it.
func Others(r Request, host string) []Other {
	c := collection{request: r, compact: strictjson.Compact(r.Body), seen: map[string]bool{}}
	if len(c.compact) == 0 {
		c.compact = []byte("{}")
	}
	c.seen[join("|", r.Method, r.Target, r.Timestamp, string(c.compact))] = true
	if len(r.Body) > 0 {
		c.seen[join("|", r.Method, r.Target, r.Timestamp, string(r.Body))] = true
	}
	c.paths(host)
	c.times()
	c.bodies()
	c.wholes()
	return c.list
}

func join(separator string, parts ...string) string { return strings.Join(parts, separator) }

type collection struct {
	request Request
	compact []byte
	seen    map[string]bool
	list    []Other
}

// add adds a message, unless it was added before.
func (c *collection) add(finding Finding, message string) {
	if !c.seen[message] {
		c.seen[message] = true
		c.list = append(c.list, Other{finding, []byte(message)})
	}
}

func (c *collection) path(code Code, target string) {
	c.add(code.Found(), join("|", c.request.Method, target, c.request.Timestamp, string(c.compact)))
}

func (c *collection) paths(host string) {
	target := c.request.Target
	path, query, asked := strings.Cut(target, "?")
	c.path(PathQuery, path)
	for _, origin := range []string{"https://", "http://", ""} {
		c.path(PathHost, origin+host+c.request.Prefix+target)
	}
	c.path(PathPrefixed, c.request.Prefix+target)
	c.path(PathSlash, strings.TrimPrefix(target, "/"))
	for _, end := range []string{path + "/", strings.TrimSuffix(path, "/")} {
		c.path(PathEnd, end+target[len(path):])
	}
	if decoded, err := url.PathUnescape(target); err == nil {
		c.path(PathEncoding, decoded)
		c.path(PathEncoding, strings.ReplaceAll(decoded, "+", " "))
	}
	c.path(PathEncoding, strings.ReplaceAll(target, "%20", "+"))
	c.path(PathEncoding, strings.ReplaceAll(target, "+", "%20"))
	c.path(PathEncoding, strings.ReplaceAll(target, "+", "%2B"))
	if values, err := url.ParseQuery(query); err == nil && asked {
		c.path(PathEncoding, path+"?"+values.Encode()) // sorted
	}
	for _, other := range orders(query) {
		c.path(PathEncoding, path+"?"+other)
	}
	for _, prefix := range []string{"/v1/sdk", "/v1"} {
		c.path(PathPrefix, strings.TrimPrefix(target, prefix))
	}
}

// orders returns the other orders of a query with two or three parameters. Longer queries aren't
// tried, because they have too many orders, and a program with a random order uses a different order
// next time.
func orders(query string) []string {
	switch p := strings.Split(query, "&"); len(p) {
	case 2:
		return []string{p[1] + "&" + p[0]}
	case 3:
		return []string{
			join("&", p[0], p[2], p[1]), join("&", p[1], p[0], p[2]), join("&", p[1], p[2], p[0]),
			join("&", p[2], p[0], p[1]), join("&", p[2], p[1], p[0]),
		}
	}
	return nil
}

func (c *collection) times() {
	r := c.request
	at := func(timestamp string) {
		c.add(TimeMilliseconds.Found(), join("|", r.Method, r.Target, timestamp, string(c.compact)))
	}
	at(r.Timestamp + "000")
	if len(r.Timestamp) == len("1795257600000") {
		at(r.Timestamp[:len("1795257600")])
	}
}

func (c *collection) body(finding Finding, body string) {
	c.add(finding, join("|", c.request.Method, c.request.Target, c.request.Timestamp, body))
}

func (c *collection) bodies() {
	body := string(c.request.Body)
	if body == "" || body == "{}" {
		for _, other := range []string{"", "null", `""`, "undefined", "None"} {
			c.body(BodyEmpty.Found(), other)
		}
		c.add(BodyEmpty.Found(), join("|", c.request.Method, c.request.Target, c.request.Timestamp))
		for _, end := range []string{"\n", "\r\n"} {
			c.body(BodyLineEnd.Found(), "{}"+end)
		}
		return
	}
	c.body(BodyLineEnd.Found(), strings.TrimRight(body, "\r\n"))
	for _, end := range []string{"\n", "\r\n"} {
		c.body(BodyLineEnd.Found(), body+end)
	}
	for _, other := range []string{"", "{}", "null"} {
		c.body(BodyLeftOut.Found(), other)
	}
	c.body(BodyString.Found(), "[object Object]")
	for _, text := range []string{body, string(c.compact)} {
		if quoted, err := json.Marshal(text); err == nil {
			c.body(BodyString.Found(), string(quoted))
		}
		if quoted, err := strictjson.Encode(text); err == nil {
			c.body(BodyString.Found(), string(quoted))
		}
	}
	for _, written := range rewritten(c.request.Body) {
		c.body(written.Finding, written.text)
	}
}

// wholes adds the messages with a mistake that affects all parts.
func (c *collection) wholes() {
	r := c.request
	c.add(MethodCase.Found(), join("|", strings.ToLower(r.Method), r.Target, r.Timestamp, string(c.compact)))
	for _, separator := range []string{" | ", "\n", "", ".", ":", ","} {
		c.add(Separators.Found(), join(separator, r.Method, r.Target, r.Timestamp, string(c.compact)))
	}
	for _, parts := range [][]string{
		{r.Timestamp, r.Method, r.Target, string(c.compact)}, {r.Method, r.Timestamp, r.Target, string(c.compact)},
		{r.Method, r.Target, string(c.compact), r.Timestamp},
	} {
		c.add(Order.Found(), join("|", parts...))
	}
	right := join("|", r.Method, r.Target, r.Timestamp, string(c.compact))
	sum := sha256.Sum256([]byte(right))
	c.add(Hashed.Found(), string(sum[:]))
	c.add(Hashed.Found(), hex.EncodeToString(sum[:]))
	if narrow, ok := latin1(right); ok {
		c.add(NotUTF8.Found(), narrow)
	}
}

// latin1 returns text in ISO 8859-1, if that is possible and differs from UTF-8.
func latin1(text string) (narrow string, ok bool) {
	var out bytes.Buffer
	for _, r := range text {
		if r > 0xff {
			return "", false
		}
		out.WriteByte(byte(r))
	}
	return out.String(), out.String() != text
}
