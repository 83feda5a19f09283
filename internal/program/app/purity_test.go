package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Functions of package time that read the clock.
var clocks = regexp.MustCompile(`\btime\.(Now|Since|Until|After|Sleep|NewTimer|NewTicker|AfterFunc)\(`)

func TestPurePackagesDoNotReadTheClock(t *testing.T) {
	read := 0
	for path, of := range places {
		if !of.pure {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root(t), path, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read++
			if call := clocks.Find(text); call != nil {
				t.Errorf("%s calls %s", filepath.Base(file), call)
			}
		}
	}
	if read == 0 {
		t.Error("no package is pure")
	}
}

// Functions of google/uuid that read the clock. Its IDs of version 7 count on from the last one, so
// a clock that was wrong for a second makes wrong IDs until the process restarts.
var clockedIDs = regexp.MustCompile(`\buuid\.(NewV7|NewV7FromReader|NewV6|NewUUID)\(`)

func TestIDsTakeTheirTimeFromTheCheckedClock(t *testing.T) {
	for _, file := range sources(t) {
		if !strings.HasPrefix(file.path, "internal") || strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), file.path))
		if err != nil {
			t.Fatal(err)
		}
		if call := clockedIDs.Find(text); call != nil {
			t.Errorf("%s calls %s instead of uuid7.New", file.path, call)
		}
	}
}
