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
	p.show("Starting PostgreSQL … migrating …")
	p.tick()
	p.tick()
	p.end()
	p.end()
	s.note("done")
	got := regexp.MustCompile(`\d\.\d s`).ReplaceAllString(screen.String(), "T")
	const erase, second = "\r\x1b[K", "Starting PostgreSQL … migrating …  T"
	if want := erase + "Starting PostgreSQL …  T" + erase + "a warning\n" + erase + second + erase + second + erase + "done\n"; got != want {
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
		p.show("EXECUTING: A, B")
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
	p.show(strings.Repeat("é", 200))
	p.tick()
	if line := strings.TrimPrefix(screen.String(), "\r\x1b[K"); len([]rune(line)) != progressWidth || !strings.HasSuffix(line, "é…  0.0 s") {
		t.Errorf("the line is %q", line)
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
