package cli

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The ticks of these tests come from the tests: the output has no file, so none comes within ten seconds.
func TestProgressIsRedrawnBelowOtherOutput(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	s := &session{stderr: &screen}
	p := s.wait("Starting PostgreSQL …")
	p.live = true
	p.tick()
	s.note("a warning")
	p.show("Starting PostgreSQL … migrating …", "one", "two")
	p.tick()
	p.tick()
	p.end()
	p.end()
	s.note("done")
	got := regexp.MustCompile(`\d\.\d s`).ReplaceAllString(screen.String(), "T")
	const frame = "Starting PostgreSQL … migrating …  T\n  one\n  two\n"
	const up1, up3 = "\x1b[1A\r\x1b[J", "\x1b[3A\r\x1b[J"
	if want := "Starting PostgreSQL …  T\n" + up1 + "a warning\n" + frame + up3 + frame + up3 + "done\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.stderr != &screen {
		t.Error("the session still writes through the progress")
	}
}

func TestProgressIsALineWithoutATerminal(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		var out bytes.Buffer
		s := &session{stderr: &out, look: look{Quiet: quiet}}
		p := s.wait("Auditing")
		p.began = time.Now().Add(-20 * time.Second)
		p.tick()
		p.show("EXECUTING", "A", "B")
		p.say()
		p.end()
		s.complain("an error")
		want := "Auditing  20 s\nEXECUTING: A, B\nan error\n"
		if quiet {
			want = "an error\n"
		}
		if out.String() != want {
			t.Errorf("quiet %t: got %q, want %q", quiet, out.String(), want)
		}
	}
}

func TestProgressFitsTheTerminal(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	s := &session{stderr: &screen}
	p := s.wait("")
	p.live = true
	p.show(strings.Split(strings.Repeat(strings.Repeat("é", 200)+"\n", 30), "\n")...)
	p.tick()
	lines := strings.Split(strings.TrimSuffix(screen.String(), "\n"), "\n")
	if len(lines) != progressLines || lines[progressLines-1] != "  ..." {
		t.Errorf("%d lines, the last one is %q", len(lines), lines[len(lines)-1])
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > progressWidth {
			t.Errorf("a line has %d columns", n)
		}
	}
	p.end()
}

func TestNoFileIsATerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if terminal(file) || terminal(&bytes.Buffer{}) {
		t.Error("a file or a buffer is a terminal")
	}
}
