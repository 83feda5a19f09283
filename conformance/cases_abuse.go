package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var gateCases = []Case{
	{Part: "D1.1.duplicates, D1.1.utf8, D1.1.type", Name: "AU06 bodies that are not one clean JSON object", Run: dirtyBodies},
	{Part: "D1.1.nesting", Name: "AB04 nesting of 64 and of 65, too many members, too long numbers", Run: heavyBodies},
	{Part: "D1.9", Name: "AB05 what PostgreSQL cannot hold, in every text of a request", Run: poison},
	{Part: "D1.9, D1.7.form", Name: "AB05 the same in paths, queries and headers", Run: poisonElsewhere},
	{Part: "D1.9", Name: "AB05 the same in workflows and their runs", Run: poisonWorkflow},
	{Part: "4.1.module, D3.table", Name: "AB06 modules that do not exist", Run: oddModules},
}

var abuseCases = []Case{
	{Part: "D1.1.size", Name: "AB01 a body of 1 MiB and one of a byte more", Run: bodySize},
	{Part: "D1.1.size", Name: "AB01 lengths that are unknown, false or without end", Run: bodyLength},
	{Part: "D1.8.target", Name: "AB08 never a second request out of the bytes of one", Run: smuggling},
}

func dirtyBodies(t *probe.Trial) {
	const call = `"module":"RANDOM_UUID","input":{},"config":{}`
	for _, body := range []string{
		`{` + call + `,"module":"HASH"}`, `{` + call + `,"attempts":1,"\u0061ttempts":2}`, `{` + call + `,"x":{"a":1,"a":1}}`,
		"\ufeff{" + call + "}", "{" + call + "} x", "{" + call + "}{}", "{" + call + "}\x00", `[{` + call + `}]`, `null`, `"x"`, `7`, `true`,
		`{` + call + `,}`, `{` + call, `{'module':'x'}`, `{` + call + `,"x":01}`, `{` + call + `,"x":NaN}`, `{` + call + `,"x":"` + "\xff" + `"}`,
		`{` + call + `,"x":"` + "\xc0\x80" + `"}`, `{` + call + `,"x":"` + "\xed\xa0\x80" + `"}`, `{` + call + `,"x":"` + "a\nb" + `"}`, `   `,
	} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(body)})
		t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	}
	// UTF-16 is rejected as invalid JSON, even if the content type declares it.
	var wide []byte
	for _, c := range []byte(`{` + call + `}`) {
		wide = append(wide, c, 0)
	}
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: wide})
	t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
	// A chunked body without a length is accepted too.
	body := string(t.JSON(probe.RandomUUID()))
	answers := t.Raw(t.Head(http.MethodPost, probe.Components, []byte(body)) +
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))
	t.Check(len(answers) == 1 && answers[0].Status == http.StatusOK, "a chunked body: %v", answers)
}

// wrapped returns a call with a value in an unknown field.
func wrapped(value string) string {
	return `{"module":"RANDOM_UUID","input":{},"config":{},"x":` + value + `}`
}

func heavyBodies(t *probe.Trial) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	var keys strings.Builder
	for i := range 200_001 {
		fmt.Fprintf(&keys, `,"%x":1`, i)
	}
	for name, c := range map[string]struct {
		value   string
		refused bool
	}{
		"64 levels":         {nested(63), false},
		"65 levels":         {nested(64), true},
		"10,001 levels":     {nested(10_000), true},
		"400,000 levels":    {nested(400_000), true},
		"200,001 members":   {`{"":0` + keys.String() + `}`, keys.Len() < 1<<20},
		"many elements":     {`[` + strings.Repeat("{},", 340_000) + `{}]`, true},
		"64 digits":         {strings.Repeat("1", 64), false},
		"65 digits":         {strings.Repeat("1", 65), true},
		"a million digits":  {strings.Repeat("1", 1_000_000), true},
		"a huge exponent":   {"1e131072", true},
		"a name of 900 KiB": {`{"` + strings.Repeat("k", 900<<10) + `":1}`, true},
	} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: []byte(wrapped(c.value))})
		switch {
		case answer.Status == http.StatusRequestEntityTooLarge && len(c.value) > 1<<20-100:
		case c.refused:
			t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
			t.Check(len(answer.Body) < 4096, "%s: an answer of %d bytes", name, len(answer.Body))
		default:
			t.Check(answer.Status == http.StatusOK, "%s: %d %.300s", name, answer.Status, answer.Body)
		}
		t.Soon(answer.Took, 5*time.Second, "%s took %v", name, answer.Took)
	}
}

// poison puts a value that PostgreSQL cannot store into every string of a call,
// including field names.
func poison(t *probe.Trial) {
	for _, bad := range []struct{ text, number string }{
		{`"a\u0000b"`, ""}, {`"\ud800"`, ""}, {`"\udc00\ud800"`, ""}, {"\"\xff\"", ""}, {"", "1e131072"}, {"", "-1e-99999"},
	} {
		value, key := bad.text, bad.text
		if bad.number != "" {
			value, key = bad.number, ""
		}
		for place, body := range map[string]string{
			"/module":              `{"module":` + value + `,"input":{},"config":{}}`,
			"/input/data":          `{"module":"HASH","input":{"data":` + value + `},"config":{}}`,
			"/input/query/q":       `{"module":"API_CALL","input":{"headers":{},"query":{"q":` + value + `}},"config":{"apiUrl":"https://x.example/","method":"GET"}}`,
			"/input/body/a/0":      `{"module":"API_CALL","input":{"headers":{},"body":{"a":[` + value + `]}},"config":{"apiUrl":"https://x.example/","method":"GET"}}`,
			"/config/apiUrl":       `{"module":"API_CALL","input":{"headers":{}},"config":{"apiUrl":` + value + `,"method":"GET"}}`,
			"/callbackUrl":         `{"module":"RANDOM_UUID","input":{},"config":{},"callbackUrl":` + value + `}`,
			"/callbackSecret":      `{"module":"RANDOM_UUID","input":{},"config":{},"callbackSecret":` + value + `}`,
			"/callbackHeaders/X-A": `{"module":"RANDOM_UUID","input":{},"config":{},"callbackHeaders":{"X-A":` + value + `}}`,
			"/x":                   wrapped(value),
		} {
			p := invalid(t, body)
			t.Check(strings.Contains(strings.Join(probe.Pointers(p), " "), place), "%q at %s: the faults are at %q", value, place, probe.Pointers(p))
		}
		if key == "" {
			continue
		}
		for _, body := range []string{
			`{"module":"RANDOM_UUID","input":{},"config":{},` + key + `:1}`,
			`{"module":"RANDOM_UUID","input":{` + key + `:1},"config":{}}`,
			`{"module":"RANDOM_UUID","input":{},"config":{},"callbackHeaders":{` + key + `:"1"}}`,
		} {
			p := invalid(t, body)
			t.Check(len(p.Errors) > 0, "a bad name without a pointer: %s", t.JSON(p))
		}
	}
}

func poisonElsewhere(t *probe.Trial) {
	for _, path := range []string{"%00", "a%00b", "%ff", "%ed%a0%80", "%c0%80"} {
		t.Problem(t.Get(probe.Execution(path)), http.StatusNotFound, "NOT_FOUND")
		t.Problem(t.Get(probe.Components+"/"+path), http.StatusNotFound, "NOT_FOUND")
		p := t.Problem(t.Get(probe.Executions+"?cursor="+path), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", slices.Compact(probe.Pointers(p)), []string{"/query/cursor"})
		p = t.Problem(t.Get(probe.Executions+"?limit="+path), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/query/limit"})
	}
	for _, value := range []string{"\xff", "ä", "a\tb", strings.Repeat("k", 256)} {
		answer := t.Do(probe.Request{
			Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.RandomUUID()),
			Header: http.Header{"Idempotency-Key": {value}},
		})
		p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", slices.Compact(probe.Pointers(p)), []string{"/header/Idempotency-Key"})
	}
	for _, value := range []string{"\xff", "00-x", strings.Repeat("0", 4000)} {
		answer := t.Do(probe.Request{Path: probe.Executions + "?limit=1", Header: http.Header{"Traceparent": {value}, "X-Request-Id": {value}, "User-Agent": {value}}})
		t.Equal("status", answer.Status, http.StatusOK)
	}
}

func poisonWorkflow(t *probe.Trial) {
	id := draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"})
	path, run := workflowPath(id), runPath(begin(t, id, nil))
	component := func(member string) string {
		return `{"name":"a","components":[{"id":"a","module":"HASH",` + member + `}]}`
	}
	for _, value := range []string{`"a\u0000b"`, `"\ud800"`, "\"\xff\""} {
		for _, c := range []struct{ method, path, body, pointer string }{
			{http.MethodPost, workflows, `{"name":` + value + `,"components":[{"id":"a","module":"RANDOM_UUID"}]}`, "/name"},
			{http.MethodPost, workflows, `{"name":"a","description":` + value + `,"components":[{"id":"a","module":"RANDOM_UUID"}]}`, "/description"},
			{http.MethodPost, workflows, component(`"name":` + value), "/components/0/name"},
			{http.MethodPut, path, component(`"input":{"data":` + value + `}`), "/components/0/input/data"},
			{http.MethodPut, path, component(`"config":{"x":[` + value + `]}`), "/components/0/config/x/0"},
			{http.MethodPost, path + "/components/wait", `{"name":` + value + `}`, "/name"},
			{http.MethodPost, path, `{"input":{"a":` + value + `}}`, "/input/a"},
			{http.MethodPost, path, `{"metadata":{"a":` + value + `}}`, "/metadata/a"},
			{http.MethodPut, run + "/signals/go", `{"a":` + value + `}`, "/a"},
			{http.MethodPut, run + "/cancellation", `{"reason":` + value + `}`, "/reason"},
		} {
			p := t.Problem(t.Do(probe.Request{Method: c.method, Path: c.path, Body: []byte(c.body)}), http.StatusBadRequest, "INVALID_INPUT")
			t.Check(slices.Contains(probe.Pointers(p), c.pointer), "%s %s %q: the faults are at %q", c.method, c.path, c.body, probe.Pointers(p))
		}
	}
	t.Equal("status", t.Do(probe.Request{Method: http.MethodPut, Path: run + "/cancellation"}).Status, http.StatusOK)
}

func oddModules(t *probe.Trial) {
	for _, module := range []string{
		"NO_SUCH_MODULE", "random_uuid", "RANDOM_UUID ", " RANDOM_UUID", "RANDOM-UUID", "../../etc/passwd", "RАNDOM_UUID", "ＲANDOM_UUID",
		"RANDOM_UUID\u200b", "", "%2e%2e", "ON_API_CALLED", strings.Repeat("A", 10_000), "A" + strings.Repeat("_B", 31),
	} {
		body, err := json.Marshal(probe.Call{Module: module, Input: map[string]any{}, Config: map[string]any{}})
		t.NoError("encode", err)
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: body})
		p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", slices.Compact(probe.Pointers(p)), []string{"/module"})
		if module == "random_uuid" || module == "RANDOM-UUID" || module == "RANDOM_UUID " {
			t.Check(strings.Contains(p.Detail, "did you mean RANDOM_UUID?"), "%q: %s", module, p.Detail)
		}
		t.Check(len(module) < 100 || !strings.Contains(string(answer.Body), module[:100]), "the module is echoed: %.300s", answer.Body)
	}
}

// padded returns a call of the given size in bytes.
func padded(size int) []byte {
	const start, end = `{"module":"RANDOM_UUID","input":{},"config":{},"x":"`, `"}`
	return []byte(start + strings.Repeat("x", size-len(start)-len(end)) + end)
}

func bodySize(t *probe.Trial) {
	for _, size := range []int{1<<20 - 1, 1 << 20} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: padded(size)})
		sound(t, probe.Decode[api.ComponentExecution](t, answer))
	}
	for _, size := range []int{1<<20 + 1, 1<<20 + 1<<16} {
		answer := t.Do(probe.Request{Method: http.MethodPost, Path: probe.Components, Body: padded(size)})
		t.Problem(answer, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	}
}

// endless is a reader without an end that counts the bytes read.
func endless(t *probe.Trial, head, chunk string, limit int) (answer probe.Answer, written int) {
	conn := t.Dial()
	_, err := io.WriteString(conn, head)
	t.NoError("write", err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for written < limit {
			n, err := io.WriteString(conn, chunk)
			written += n
			if err != nil {
				return
			}
		}
	}()
	answer, err = probe.ReadAnswer(conn)
	t.NoError("read the answer", err)
	<-done
	return answer, written
}

func bodyLength(t *probe.Trial) {
	const kind = "Content-Type: application/json\r\n"
	data := strings.Repeat("x", 64<<10)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(data), data)
	head := t.Head(http.MethodPost, probe.Components, nil) + kind
	answer, written := endless(t, head+"Transfer-Encoding: chunked\r\n\r\n", chunk, 1<<30)
	t.Equal("an endless body", answer.Status, http.StatusRequestEntityTooLarge)
	t.JudgeFailure(answer)
	t.Check(written < 64<<20, "%d bytes were taken of an endless body", written)
	answer, written = endless(t, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", 1<<30), data, 1<<30)
	t.Equal("a body of 1 GiB", answer.Status, http.StatusRequestEntityTooLarge)
	t.JudgeFailure(answer)
	t.Check(written < 64<<20, "%d bytes were taken of a body of 1 GiB", written)

	// Many clients read the response only after they have written the whole body.
	const size = 3 << 20
	conn := t.Dial()
	_, err := io.WriteString(conn, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", size)+strings.Repeat("x", size))
	t.NoError("write a body of 3 MiB", err)
	answer, err = probe.ReadAnswer(conn)
	t.NoError("read the answer to a body of 3 MiB", err)
	t.Problem(answer, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")

	// A Content-Length that is too short cuts the body, so the signature does not match.
	body := string(t.JSON(probe.RandomUUID()))
	head = t.Head(http.MethodPost, probe.Components, []byte(body)) + kind + "Connection: close\r\n"
	answers := t.Raw(head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)-1) + body)
	t.Check(len(answers) == 1 && answers[0].Status == http.StatusUnauthorized, "a short length: %v", answers)
	for _, length := range []string{"-1", "x", "0x10", "+5", "1e3", "18446744073709551616"} {
		answers := t.Raw(head + "Content-Length: " + length + "\r\n\r\n" + body)
		t.Check(len(answers) == 1 && answers[0].Status == http.StatusBadRequest, "Content-Length: %s: %v", length, answers)
	}
}

func smuggling(t *probe.Trial) {
	body := string(t.JSON(probe.RandomUUID()))
	second := t.Head(http.MethodGet, probe.Executions, nil) + "Connection: close\r\n\r\n"
	head := t.Head(http.MethodPost, probe.Components, []byte(body)) + "Content-Type: application/json\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for name, c := range map[string]struct {
		send     string
		statuses []int // of the only answer; none: the connection is closed
	}{
		"two lengths":            {head + length + fmt.Sprintf("Content-Length: %d\r\n", len(body)+len(second)) + "\r\n" + body + second, []int{400}},
		"two equal lengths":      {head + length + length + "Connection: close\r\n\r\n" + body, []int{200, 400}},
		"an unknown coding":      {head + "Transfer-Encoding: xchunked\r\n\r\n" + chunked + second, []int{501, 400}},
		"two codings":            {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked + second, []int{501, 400}},
		"a coding and a length":  {head + "Transfer-Encoding: chunked\r\n" + length + "Connection: close\r\n\r\n" + chunked + second, []int{200, 400}},
		"a folded header":        {head + "X-Folded: a\r\n b\r\n" + length + "Connection: close\r\n\r\n" + body, []int{200, 400}},
		"a bare line feed":       {strings.ReplaceAll(head, "\r\n", "\n") + strings.TrimSpace(length) + "\nConnection: close\n\n" + body, []int{200, 400}},
		"a blank before a colon": {head + fmt.Sprintf("Content-Length : %d\r\n\r\n", len(body)) + body + second, []int{400}},
		"no host":                {"GET /healthz HTTP/1.1\r\n\r\n" + second, []int{400}},
		"two hosts":              {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + second, []int{400}},
	} {
		answers := t.Raw(c.send)
		t.Check(len(answers) == 1, "%s: %d answers: %v", name, len(answers), answers)
		fits := false
		for _, status := range c.statuses {
			fits = fits || answers[0].Status == status
		}
		t.Check(fits, "%s: %d, want one of %v", name, answers[0].Status, c.statuses)
	}
}
