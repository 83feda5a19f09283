package console

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/contract"
	"github.com/weft-automation/weft/internal/fault"
	"github.com/weft-automation/weft/internal/person"
)

func TestAPageSaysWhenToComeAgain(t *testing.T) {
	c := &console{Deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	for want, err := range map[string]error{
		"1": fault.New(fault.Unavailable, "not now"), "3": &fault.Error{Code: fault.RateLimited, RetryAfter: 2100 * time.Millisecond},
		"": fault.New(fault.NotFound, "nothing"),
	} {
		header := http.Header{}
		if status, _ := c.explain(t.Context(), header, err); header.Get("Retry-After") != want {
			t.Errorf("%d: Retry-After %q, want %q", status, header.Get("Retry-After"), want)
		}
	}
}

// A form may do what its operation may, by whom it may, and nothing is left out.
func TestFormsTakeTheRolesOfTheContract(t *testing.T) {
	document, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]person.Role{}
	for _, operation := range document.Operations {
		roles[operation.ID] = person.Role(operation.Role)
	}
	for path, a := range actions {
		if role, ok := roles[a.operation]; !ok || role != a.role || role == "" {
			t.Errorf("%s: role %q, the contract's %s has %q", path, a.role, a.operation, role)
		}
	}
}
