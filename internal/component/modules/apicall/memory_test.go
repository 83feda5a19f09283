package apicall

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/modules/upstream"
)

// Not parallel, because it counts allocations.
func TestOutputMappingDecodesTheMappedPathsOnly(t *testing.T) {
	body := `{"first":{"n":1.50},"items":[` + strings.Repeat(`{"a":"`+strings.Repeat("x", 30)+`"},`, 45_000) + `{"a":"last"}],"last":true}`
	mapping := map[string]string{"n": "first.n", "item": "items.45000", "last": "last"}
	for i := range 40 {
		mapping[fmt.Sprintf("m%d", i)] = fmt.Sprintf("items.%d.a", i*1000)
	}
	answer := upstream.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, err := render(answer, mapping)
	runtime.ReadMemStats(&after)
	if err != nil || !strings.Contains(string(result.Output), `"item":{"a":"last"}`) || !strings.Contains(string(result.Output), `"n":1.50`) {
		t.Fatalf("%.200s, %v", result.Output, err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4*uint64(len(body)) {
		t.Errorf("%d bytes were allocated for a body of %d", allocated, len(body))
	}
}
