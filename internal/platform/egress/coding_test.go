package egress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func zipped(t *testing.T, plain string) string {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestResponsesAreDecodedUnderTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	small := strings.Repeat("content ", 100)
	packed := zipped(t, small)
	emptyBlocks := packed[:10] + strings.Repeat("\x00\x00\x00\xff\xff", 10_000)
	for name, c := range map[string]struct {
		coding, body, want string
		failure            string // a part of the error
	}{
		"none":             {"", small, small, ""},
		"identity":         {"identity", small, small, ""},
		"gzip":             {"gzip", packed, small, ""},
		"other spelling":   {"X-GZIP", packed, small, ""},
		"two members":      {"gzip", packed + packed, small + small, ""},
		"empty":            {"gzip", "", "", ""},
		"empty, unknown":   {"br", "", "", ""},
		"unknown":          {"br", "\x0b\x02", "", "has a Content-Encoding other than gzip"},
		"twice":            {"gzip, gzip", packed, "", "has a Content-Encoding other than gzip"},
		"not gzip":         {"gzip", small, "", "not valid gzip"},
		"wrong checksum":   {"gzip", packed[:len(packed)-8] + "12345678", "", "not valid gzip"},
		"corrupt":          {"gzip", packed[:10] + "\xff\xff\xff", "", "not valid gzip"},
		"cut off":          {"gzip", packed[:len(packed)-9], "", "not valid gzip"},
		"bomb":             {"gzip", zipped(t, strings.Repeat("\x00", 1<<20)), "", "too large"},
		"endless, no data": {"gzip", emptyBlocks, "", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if accepted := r.Header.Get("Accept-Encoding"); accepted != "gzip" {
					t.Errorf("Accept-Encoding: %q", accepted)
				}
				if c.coding != "" {
					w.Header().Set("Content-Encoding", c.coding)
				}
				io.WriteString(w, c.body)
			}))
			defer server.Close()
			guard := New(Policy{Allow: loopback()})
			defer guard.Close()
			response, err := guard.Client(ClientOptions{MaxBytes: limit}).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) || len(body) > limit {
					t.Errorf("%d bytes, %v; want an error with %q", len(body), err, c.failure)
				}
				if _, ok := errors.AsType[*CodingError](err); ok && Class(err) != ClassMalformed {
					t.Errorf("class %s", Class(err))
				}
				return
			}
			if err != nil || string(body) != c.want {
				t.Errorf("%.40q, %v", body, err)
			}
		})
	}
}

func TestARangeIsRequestedWithoutCoding(t *testing.T) {
	t.Parallel()
	var accepted string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { accepted = r.Header.Get("Accept-Encoding") }))
	defer server.Close()
	guard := New(Policy{Allow: loopback()})
	defer guard.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Range", "bytes=0-3")
	response, err := guard.Client(ClientOptions{}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if accepted != "identity" {
		t.Errorf("Accept-Encoding: %q", accepted)
	}
}
