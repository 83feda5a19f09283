package workflow_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The ETag of a workflow is its version, so every change of a workflow creates a version. The only
// exception is archiving, which reads take into account.
func TestEveryChangeOfWorkflowCreatesVersion(t *testing.T) {
	files, err := filepath.Glob("../../queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	update := regexp.MustCompile(`UPDATE (workflows|workflow_versions)\b`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for query := range strings.SplitSeq(string(text), "-- name: ") {
			if !update.MatchString(query) {
				continue
			}
			found++
			if name, _, _ := strings.Cut(query, " "); name != "WorkflowArchive" && !strings.Contains(query, "version = version + 1") {
				t.Errorf("%s: %s makes no version", filepath.Base(file), name)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d queries change workflows", found)
	}
}
