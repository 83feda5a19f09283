package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/local/client"
)

// A user of this client does not write a signer, so a rejected signature names the likely cause
// instead of how to compare messages.
func TestRejectedSignatureNamesItsLikelyCause(t *testing.T) {
	s := serve(t, nil) // its secret is valid
	const detail = "Compare expectedMessageSha256"
	for name, c := range map[string]struct{ reason, target, want string }{
		"another key":       {"invalid_credentials", "/weft/v1/x?limit=1", "belongs to another Weft"},
		"a removed path":    {"invalid_credentials", "/v1/x?limit=1", "add the path to the base URL"},
		"a clock":           {"timestamp_in_future", "", "the clocks of this machine and the service differ by 7 s"},
		"a removed header":  {"missing_signature", "", "a proxy in between removes a header"},
		"a changed header":  {"malformed_timestamp", "", "a proxy in between changes a header"},
		"an unknown reason": {"brand_new", "", detail},
	} {
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sum := sha256.Sum256([]byte("GET|" + c.target + "|" + r.Header.Get("X-Sdk-Timestamp") + "|{}"))
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"code":"UNAUTHORIZED","reason":%q,"detail":%q,"status":401,"deltaSeconds":7,"expectedMessageSha256":%q}`, c.reason, detail, hex.EncodeToString(sum[:]))
		}))
		signer, err := client.NewSigner("ws_test", s.secret)
		if err != nil {
			t.Fatal(err)
		}
		weft, err := client.New(refusing.URL, signer, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = weft.Call(t.Context(), http.MethodGet, "/weft/v1/x?limit=1", nil, nil)
		if text := fmt.Sprint(err); !strings.Contains(text, c.reason) || !strings.Contains(text, c.want) || c.want != detail && strings.Contains(text, detail) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		refusing.Close()
	}
}
