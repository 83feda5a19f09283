package cli

import (
	"bytes"
	"testing"
)

func TestStartLineIsRewrittenAndStaysBelowTheLog(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	line := &startLine{terminal: &screen, log: &screen}
	line.step("starting PostgreSQL")
	line.step("migrating")
	line.step("migrating") // again, after the database was created
	if _, err := line.Write([]byte("a warning\n")); err != nil {
		t.Fatal(err)
	}
	line.step("")
	line.step("")
	const both = "Starting PostgreSQL … migrating …"
	if got, want := screen.String(), "Starting PostgreSQL …"+eraseLine+both+eraseLine+"a warning\n"+both+eraseLine; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	var log bytes.Buffer
	line = &startLine{log: &log}
	line.step("starting PostgreSQL")
	_, _ = line.Write([]byte("a warning\n"))
	if log.String() != "a warning\n" {
		t.Errorf("without a terminal, %q was written", log.String())
	}
}
