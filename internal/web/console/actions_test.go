package console

import (
	"encoding/binary"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/contract"
)

func TestErrorPagesHaveRetryAfter(t *testing.T) {
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

// Every form has the role of its operation in the contract.
func TestFormsHaveRolesOfContract(t *testing.T) {
	document, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]person.Role{}
	for _, operation := range document.Operations {
		roles[operation.ID] = person.Role(operation.Role)
	}
	for path, a := range runActions {
		if role := roles[a.operation]; role != person.Editor {
			t.Errorf("%s: role editor, but operation %s in the contract has %q", path, a.operation, role)
		}
	}
	for path, a := range actions {
		if role, ok := roles[a.operation]; !ok || role != a.role || role == "" {
			t.Errorf("%s: role %q, but operation %s in the contract has %q", path, a.role, a.operation, role)
		}
	}
}

// Lists are sorted by ID, and users can't choose the position of a resource.
func TestFormIDIsRecent(t *testing.T) {
	at := func(ago time.Duration) uuid.UUID {
		id := uuid.Must(uuid.NewV7())
		milliseconds := uint64(time.Now().Add(-ago).UnixMilli())
		binary.BigEndian.PutUint64(id[:8], milliseconds<<16|uint64(binary.BigEndian.Uint16(id[6:8])))
		return id
	}
	for id, taken := range map[uuid.UUID]bool{
		at(0): true, at(23 * time.Hour): true, at(-23 * time.Hour): true,
		at(25 * time.Hour): false, at(-25 * time.Hour): false,
		uuid.MustParse("00000000-0000-7000-8000-000000000000"): false,
		uuid.MustParse("ffffffff-ffff-7fff-bfff-ffffffffffff"): false,
		uuid.New(): false,
	} {
		want := uuid.Nil
		if taken {
			want = id
		}
		if got := formID(&http.Request{Method: http.MethodPost, PostForm: url.Values{"id": {id.String()}}}); got != want {
			t.Errorf("%s: got %s", id, got)
		}
	}
}
