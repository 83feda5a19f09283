package apicall

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
)

// sentBody returns the body and type of a call with an input.
func sentBody(t *testing.T, given string) (body, contentType string, failed error) {
	t.Helper()
	in, err := component.Decode[input](json.RawMessage(given))
	if err != nil {
		t.Fatal(err)
	}
	request, err := newRequest(t.Context(), config{APIURL: "https://api.example.com", Method: http.MethodPost}, in, uuid.MustParse("0193f1c0-0000-7000-8000-000000000001"))
	if err != nil {
		return "", "", err
	}
	sent, err := io.ReadAll(request.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(sent), request.Header.Get("Content-Type"), nil
}

func TestBodiesInBase64AreSentAsBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, body, contentType string }{
		{`{"body":"AP9+","bodyEncoding":"base64"}`, "\x00\xff~", "application/octet-stream"},
		{`{"body":"AP\r\n9+","bodyEncoding":"base64","headers":{"content-type":"image/png"}}`, "\x00\xff~", "image/png"},
		{`{"body":"","bodyEncoding":"base64"}`, "", "application/octet-stream"},
		{`{"body":null,"bodyEncoding":"base64"}`, "", ""},
		{`{"body":null,"bodyEncoding":"empty"}`, "", ""},
		{`{"body":"AP9+","bodyEncoding":"text"}`, "AP9+", "text/plain; charset=utf-8"},
		{`{"body":{"a":1},"bodyEncoding":"json"}`, `{"a":1}`, "application/json"},
	} {
		if body, contentType, err := sentBody(t, c.given); body != c.body || contentType != c.contentType || err != nil {
			t.Errorf("%s: %q of type %q, %v", c.given, body, contentType, err)
		}
	}
	for given, want := range map[string]string{
		`{"body":"AP9","bodyEncoding":"base64"}`:   "body is not standard base64",
		`{"body":"-_8=","bodyEncoding":"base64"}`:  "body is not standard base64",
		`{"body":{"a":1},"bodyEncoding":"base64"}`: "body must be a string",
	} {
		if _, _, err := sentBody(t, given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", given, err, want)
		}
	}
}

func TestFormsWithFiles(t *testing.T) {
	t.Parallel()
	form := func(body string) string {
		return `{"headers":{"Content-Type":"multipart/form-data"},"body":` + body + `}`
	}
	body, contentType, err := sentBody(t, form(`{"file":{"base64":"AP9+","filename":"a\"b\n.png","contentType":"image/png"},"z":"last","a":[1,true,null],"gone":null}`))
	const boundary = "weft-0193f1c0-0000-7000-8000-000000000001"
	want := strings.ReplaceAll(strings.Join([]string{
		"--B", `Content-Disposition: form-data; name="z"`, "", "last",
		"--B", `Content-Disposition: form-data; name="a"`, "", "1",
		"--B", `Content-Disposition: form-data; name="a"`, "", "true",
		"--B", `Content-Disposition: form-data; name="file"; filename="a%22b%0A.png"`, "Content-Type: image/png", "", "\x00\xff~",
		"--B--", "",
	}, "\r\n"), "--B", "--"+boundary)
	if body != want || contentType != "multipart/form-data; boundary="+boundary || err != nil {
		t.Errorf("got %q of type %q, %v; want %q", body, contentType, err, want)
	}
	body, contentType, err = sentBody(t, `{"headers":{"Content-Type":"multipart/form-data; boundary=mine"},"body":{"a":"b"}}`)
	if !strings.HasPrefix(body, "--mine\r\n") || contentType != "multipart/form-data; boundary=mine" || err != nil {
		t.Errorf("with an own boundary: %q of type %q, %v", body, contentType, err)
	}
	if body, _, err := sentBody(t, form(`"text"`)); body != "text" || err != nil {
		t.Errorf("text: %q, %v", body, err)
	}
	for given, want := range map[string]string{
		form(`[1]`):                                           "body must be an object",
		form(`{"a":{"b":1}}`):                                 "body: a is an object, so it must be a file",
		form(`{"a":{"base64":"","b":1}}`):                     "body: a is an object, so it must be a file",
		form(`{"a":{"base64":7}}`):                            "body: a is an object, so it must be a file",
		form(`{"a":[[1]]}`):                                   "body: a must be a string",
		form(`{"a":{"base64":"AP9"}}`):                        "a.base64 is not standard base64",
		form(`{"a\u0001":"x"}`):                               `the name "a\x01" has a control character`,
		form(`{"a":{"base64":"","filename":"\u0007"}}`):       "a.filename has a control character",
		form(`{"a":{"base64":"","contentType":"a\r\nb: c"}}`): "a.contentType is not a media type",
		`{"headers":{"Content-Type":"multipart/form-data; boundary=\"a b \""},"body":{}}`: "boundary of Content-Type is invalid",
	} {
		if _, _, err := sentBody(t, given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", given, err, want)
		}
	}
}

// readForm reads a form with Node's parser.
const readForm = `
const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const form = await new Response(Buffer.concat(chunks), {headers: {"Content-Type": process.argv[2]}}).formData()
const file = form.get("file")
const sum = Buffer.from(await crypto.subtle.digest("SHA-256", await file.arrayBuffer())).toString("hex")
console.log([form.get("note"), file.name, file.type, file.size, sum].join("\n"))
`

// A file of 700 KiB is read by another language as it was.
func TestALargeFileIsReadByAnotherLanguage(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte{0, '\r', '\n', '-', '-', 0xff, 'w'}, 100<<10)
	given, err := json.Marshal(map[string]any{
		"headers": map[string]string{"Content-Type": "multipart/form-data"},
		"body":    map[string]any{"note": "ünï", "file": map[string]string{"base64": base64.StdEncoding.EncodeToString(content), "filename": "a \"b\".bin"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body, contentType, err := sentBody(t, string(given))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "read.mjs")
	if err := os.WriteFile(script, []byte(readForm), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", script, contentType)
	command.Stdin = strings.NewReader(body)
	output, err := command.Output()
	want := fmt.Sprintf("ünï\na \"b\".bin\napplication/octet-stream\n%d\n%x\n", len(content), sha256.Sum256(content))
	if string(output) != want || err != nil {
		t.Errorf("got %s, %v; want %s", output, err, want)
	}
}
