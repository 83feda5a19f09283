package server

import (
	"net/http"
	"testing"
)

// Several header lines of a list-valued field are one list (RFC 9110, section 5.3).
func TestIfNoneMatchLinesAreJoined(t *testing.T) {
	s := real(t, nil)
	for _, path := range []string{"/v1/system/components", "/openapi.json"} {
		tag := s.do(t, "GET", path, "", "Accept-Encoding: identity").header.Get("ETag")
		for want, lines := range map[int][]string{http.StatusNotModified: {`"x"`, tag}, http.StatusOK: {`"x"`, `"y"`}} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"If-None-Match": lines, "Accept-Encoding": {"identity"}}
			answer, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if got := answer.Header.Get("Cache-Control"); got != "private, no-cache" {
				t.Errorf("%s: Cache-Control %q", path, got)
			}
			if answer.StatusCode != want {
				t.Errorf("%s unless %q: %d, want %d", path, lines, answer.StatusCode, want)
			}
		}
	}
}
