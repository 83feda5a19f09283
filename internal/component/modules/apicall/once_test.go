package apicall

import (
	"fmt"
	"testing"

	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func TestACallIsSentOnce(t *testing.T) {
	calls := waittest.Size(50, 1000)
	upstream := egresstest.NewClosing(t)
	bench := componenttest.New(t, Modules(loopback(t))...)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for _, body := range []any{nil, object{"amount": 1}} {
			for i := range calls {
				path := fmt.Sprintf("/%s/%t/%d", method, body == nil, i)
				input := object{"body": body, "headers": object{"Idempotency-Key": "k"}}
				if _, failed := run(t, bench, input, object{"apiUrl": upstream.URL + path, "method": method}); failed != nil {
					t.Fatalf("%s: %v", path, failed)
				}
				if n := upstream.Seen(path); n != 1 {
					t.Fatalf("%s was sent %d times", path, n)
				}
			}
		}
	}
}
