package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// maxProblem bounds the body of an error response.
const maxProblem = 256 << 10

// Problem is an error response of the service, or of a proxy in front of it. A proxy's response has
// only a status.
type Problem struct { //nolint:errname // what the contract calls it
	api.Problem
	RetryAfter time.Duration // 0 if the response has none
	Altered    bool          // the service received other bytes than this client signed
}

func (p *Problem) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d", p.Status)
	if p.Code != "" {
		fmt.Fprintf(&text, " %s", p.Code)
	}
	if p.Reason != nil {
		fmt.Fprintf(&text, " (%s)", *p.Reason)
	}
	fmt.Fprintf(&text, ": %s", cmp.Or(p.cause(), p.Detail))
	for _, one := range p.Errors {
		if len(p.Errors) == 1 && strings.Contains(p.Detail, one.Message) {
			continue // a single error equals the detail
		}
		fmt.Fprintf(&text, "\n  %s: %s", one.Pointer, one.Message)
	}
	if p.RetryAfter > 0 {
		fmt.Fprintf(&text, "\n  try again after %v", p.RetryAfter)
	}
	if p.RequestID != "" {
		fmt.Fprintf(&text, "\n  request %s", p.RequestID)
	}
	return text.String()
}

// cause returns the likely cause of a rejected signature, or "" for other problems. The detail of
// such a problem is for people who write a signer. This signer is right, so the fault is elsewhere.
func (p *Problem) cause() string {
	if p.Status != http.StatusUnauthorized || p.Reason == nil {
		return ""
	}
	switch reason := *p.Reason; {
	case reason == "invalid_credentials" && p.Altered:
		return "the path, query or body changed between this client and the service. A proxy in between rewrites requests. If the service is below a path of that proxy, add the path to the base URL"
	case reason == "invalid_credentials":
		return "the service does not accept this key. The key belongs to another Weft, was revoked, or has expired after a rotation, or its secret is that of another key"
	case reason == "timestamp_expired" || reason == "timestamp_in_future":
		return fmt.Sprintf("the clocks of this machine and the service differ by %d s. Set both by NTP", distance(p.DeltaSeconds))
	case strings.HasPrefix(reason, "missing_") && reason != "missing_session":
		return "a proxy in between removes a header of the signature. Let X-Api-Key, X-Sdk-Timestamp and X-Sdk-Signature pass"
	case strings.HasPrefix(reason, "malformed_"):
		return "a proxy in between changes a header of the signature. Let X-Sdk-Timestamp and X-Sdk-Signature pass unchanged"
	}
	return ""
}

func distance(seconds *int64) int64 {
	if seconds == nil {
		return 0
	}
	return max(*seconds, -*seconds)
}

// altered reports whether the service received another message than the client signed. prefix is the
// path that a proxy removes.
func altered(answer *http.Response, prefix string, body []byte, expected *string) bool {
	if expected == nil {
		return false
	}
	sent := answer.Request
	target := strings.TrimPrefix(sent.URL.RequestURI(), prefix)
	sum := sha256.Sum256(signature.Message(sent.Method, target, sent.Header.Get("X-Sdk-Timestamp"), body))
	return hex.EncodeToString(sum[:]) != *expected
}

// readProblem returns the problem of a response to a request with this body.
func (c *Client) readProblem(answer *http.Response, body []byte) error {
	p := &Problem{}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err != nil || json.Unmarshal(raw, &p.Problem) != nil || p.Code == "" {
		p.Problem = api.Problem{Detail: "the response is not from Weft: " + http.StatusText(answer.StatusCode)}
	}
	p.Status = int32(answer.StatusCode)
	p.Altered = altered(answer, c.base.EscapedPath(), body, p.ExpectedMessageSha256)
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31); err == nil {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
