package portal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/web/browsertest"
)

// Lighthouse rates each kind of page. make soak-pages installs it.
func TestPagesRateWellInLighthouse(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/web/portal.TestPagesWorkInRealBrowser") {
		return
	}
	least := map[string]int{"accessibility": 95, "best-practices": 95, "seo": 95, "performance": 85}
	pages := []string{"/", "/docs/workflows", "/docs/components/API_CALL", "/docs/reference"}
	url, _ := startService(t)
	output := browsertest.Run(t, "testdata/lighthouse.mjs", "BASE_URL="+url, "PAGES="+strings.Join(pages, " "))
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) != len(pages) {
		t.Fatalf("%d pages were measured: %s", len(lines), output)
	}
	for _, line := range lines {
		var got struct {
			Page   string
			Scores map[string]int
			Failed []string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		t.Logf("%s: %v, failed audits %v", got.Page, got.Scores, got.Failed)
		for category, want := range least {
			if got.Scores[category] < want {
				t.Errorf("%s: %s %d, want at least %d", got.Page, category, got.Scores[category], want)
			}
		}
	}
}
