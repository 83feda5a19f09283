package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
)

// maxProblem bounds the body of an error response.
const maxProblem = 256 << 10

// Problem is an error response of the service, or of a proxy in front of it. A proxy's response has
// only a status.
type Problem struct { //nolint:errname // what the contract calls it
	api.Problem
	RetryAfter time.Duration // 0 if the response has none
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
	fmt.Fprintf(&text, ": %s", p.Detail)
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

func readProblem(answer *http.Response) error {
	p := &Problem{}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err != nil || json.Unmarshal(raw, &p.Problem) != nil || p.Code == "" {
		p.Problem = api.Problem{Detail: "the response is not from Weft: " + http.StatusText(answer.StatusCode)}
	}
	p.Status = int32(answer.StatusCode)
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31); err == nil {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
