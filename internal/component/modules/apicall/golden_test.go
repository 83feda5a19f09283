package apicall

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
)

// golden has the requests of other implementations for calls, and their results for responses. The
// script next to the file created it.
type golden struct {
	Requests []struct {
		Method, Path string
		Input        object
		Sent         struct{ Method, Target, ContentType, Body string }
	}
	Answers []struct {
		ContentType, Answer string
		Body                any
	}
	Document any
	Paths    []struct {
		Path  string
		Value any
	}
}

func goldens(t *testing.T) (all golden) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil || len(all.Requests) == 0 || len(all.Answers) == 0 || len(all.Paths) == 0 {
		t.Fatalf("%d, %d and %d cases, %v", len(all.Requests), len(all.Answers), len(all.Paths), err)
	}
	return all
}

// form decodes parameters, because languages escape different characters.
func form(t *testing.T, text string) string {
	t.Helper()
	values, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return values.Encode()
}

func TestRequestsMatchAnotherImplementation(t *testing.T) {
	var got *http.Request
	var body []byte
	bench, address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	for _, c := range goldens(t).Requests {
		if _, failed := run(t, bench, c.Input, object{"apiUrl": address + c.Path, "method": c.Method}); failed != nil {
			t.Errorf("%s %s: %v", c.Method, c.Path, failed)
			continue
		}
		contentType, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
		target, query, _ := strings.Cut(got.RequestURI, "?")
		wantTarget, wantQuery, _ := strings.Cut(c.Sent.Target, "?")
		sent, want := string(body), c.Sent.Body
		if contentType == "application/x-www-form-urlencoded" {
			sent, want = form(t, sent), form(t, want)
		}
		if _, isText := c.Input["body"].(string); !isText && json.Valid(body) {
			sent, want = text(t, json.RawMessage(sent)), text(t, json.RawMessage(want))
		}
		if got.Method != c.Sent.Method || target != wantTarget || form(t, query) != form(t, wantQuery) || contentType != c.Sent.ContentType || sent != want {
			t.Errorf("%s %s: sent %s %s %q as %q, want %+v", c.Method, c.Path, got.Method, got.RequestURI, body, contentType, c.Sent)
		}
	}
}

func TestResponsesMatchAnotherImplementation(t *testing.T) {
	all := goldens(t)
	var contentType, answer string
	bench, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, answer)
	})
	for _, c := range all.Answers {
		contentType, answer = c.ContentType, c.Answer
		output, failed := run(t, bench, object{}, object{"apiUrl": address, "method": "GET"})
		if failed != nil || !reflect.DeepEqual(output["body"], c.Body) {
			t.Errorf("%s %q: %v, %v; want %v", contentType, answer, output["body"], failed, c.Body)
		}
	}
	contentType, answer = "application/json", text(t, all.Document)
	mapping := map[string]string{}
	for i, c := range all.Paths {
		mapping[fmt.Sprint("at", i)] = c.Path
	}
	output, failed := run(t, bench, object{}, object{"apiUrl": address, "method": "GET", "outputMapping": mapping})
	if failed != nil {
		t.Fatal(failed)
	}
	for i, c := range all.Paths {
		if got := output[fmt.Sprint("at", i)]; !reflect.DeepEqual(got, c.Value) {
			t.Errorf("%s: %v, want %v", c.Path, got, c.Value)
		}
	}
}

// API_CALL resolves the Location of a redirect. The references relative to http://a/b/c/d;p?q are
// from RFC 3986, section 5.4, except references that have a different scheme or host, or an
// invalid path.
func TestRedirectsResolveAsRFC3986Says(t *testing.T) {
	var location, arrived string
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/b/c/d;p?q" && arrived == "" {
			arrived = "begun"
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
			return
		}
		arrived = r.RequestURI
	})
	for reference, want := range map[string]string{
		"g": "/b/c/g", "./g": "/b/c/g", "g/": "/b/c/g/", "/g": "/g", "?y": "/b/c/d;p?y", "g?y": "/b/c/g?y", "#s": "/b/c/d;p?q", "g#s": "/b/c/g", "g?y#s": "/b/c/g?y", ";x": "/b/c/;x", "g;x": "/b/c/g;x", "g;x?y#s": "/b/c/g;x?y",
		".": "/b/c/", "./": "/b/c/", "..": "/b/", "../": "/b/", "../g": "/b/g", "../..": "/", "../../": "/", "../../g": "/g",
		"../../../g": "/g", "../../../../g": "/g", "/./g": "/g", "/../g": "/g", "g.": "/b/c/g.", ".g": "/b/c/.g", "g..": "/b/c/g..", "..g": "/b/c/..g",
		"./../g": "/b/g", "./g/.": "/b/c/g/", "g/./h": "/b/c/g/h", "g/../h": "/b/c/h", "g;x=1/./y": "/b/c/g;x=1/y", "g;x=1/../y": "/b/c/y", "g?y/./x": "/b/c/g?y/./x", "g?y/../x": "/b/c/g?y/../x", "g#s/./x": "/b/c/g",
	} {
		location, arrived = reference, ""
		if _, failed := run(t, bench, object{}, object{"apiUrl": address + "/b/c/d;p?q", "method": "GET"}); failed != nil || arrived != want {
			t.Errorf("%s leads to %s, %v; want %s", reference, arrived, failed, want)
		}
	}
}

// API_CALL decodes the example in RFC 9110, section 3.9, with the chunked framing of RFC 9112,
// section 7.1, in several spellings of the same length.
func TestRFC9110ExampleIsDecoded(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nDate: Mon, 27 Jul 2009 12:28:53 GMT\r\nServer: Apache\r\nLast-Modified: Wed, 22 Jul 2009 19:15:56 GMT\r\nETag: \"34aa387-d-1568eb00\"\r\nAccept-Ranges: bytes\r\n"
	const tail = "Vary: Accept-Encoding\r\nContent-Type: text/plain\r\n\r\n"
	const content = "Hello World! My content includes a trailing CRLF.\r\n"
	for name, answer := range map[string]string{
		"by its length": head + "Content-Length: 51\r\n" + tail + content,
		"in chunks":     head + "Transfer-Encoding: chunked\r\n" + tail + "0C;name=value\r\n" + content[:12] + "\r\n27\r\n" + content[12:] + "\r\n0\r\nX-Trailer: x\r\n\r\n",
		"to the end":    head + "Connection: close\r\n" + tail + content,
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		served := make(chan struct{})
		go func() {
			defer close(served)
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			buffer := make([]byte, 4096)
			_, _ = connection.Read(buffer)
			_, _ = io.WriteString(connection, answer)
		}()
		bench, _ := serve(t, nil)
		output, failed := run(t, bench, object{}, object{"apiUrl": "http://" + listener.Addr().String() + "/hello.txt", "method": "GET"})
		if failed != nil {
			t.Fatalf("%s: %v", name, failed)
		}
		<-served
		headers, _ := output["headers"].(object)
		if output["body"] != content || output["status"] != 200.0 || headers["etag"] != `"34aa387-d-1568eb00"` || headers["last-modified"] != "Wed, 22 Jul 2009 19:15:56 GMT" || headers["content-type"] != "text/plain" {
			t.Errorf("%s: %v", name, output)
		}
	}
}
