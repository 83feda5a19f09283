package page

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
)

func TestErrorPagesHaveRetryAfter(t *testing.T) {
	s := &Site{Deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	for want, err := range map[string]error{
		"1": fault.New(fault.Unavailable, "not now"), "3": &fault.Error{Code: fault.RateLimited, RetryAfter: 2100 * time.Millisecond},
		"": fault.New(fault.NotFound, "nothing"),
	} {
		header := http.Header{}
		if status, _ := s.Explain(t.Context(), header, err); header.Get("Retry-After") != want {
			t.Errorf("%d: Retry-After %q, want %q", status, header.Get("Retry-After"), want)
		}
	}
}
