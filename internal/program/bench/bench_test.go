package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this test program act as the processes that the benchmark starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := act(ctx, os.Args[1:]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The values depend on the machine's load, so the test only checks that the figures are measured.
func TestFiguresAreMeasured(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var table, progress bytes.Buffer
	report, err := Run(t.Context(), Options{
		Program: program, Only: []string{"P1", "P1b", "P6b", "P7c", "P10"}, Runs: 1, Length: 100 * time.Millisecond,
		Out: &table, Progress: &progress,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if len(report.Figures) != 5 {
		t.Fatalf("%d figures, want 5:\n%s", len(report.Figures), table.String())
	}
	for _, figure := range report.Figures {
		if figure.Error != "" || figure.Value == nil || *figure.Value <= 0 || figure.Verdict == "" {
			t.Errorf("%s: %+v\n%s", figure.ID, figure, progress.String())
		}
	}
}
