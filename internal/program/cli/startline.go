package cli

import (
	"io"
	"strings"
	"sync"
)

// startLine is the line that weft dev rewrites on a terminal while it starts. The log is written
// through it, so that a log line doesn't continue the start line.
type startLine struct {
	terminal io.Writer // nil: the line isn't drawn
	log      io.Writer

	mu   sync.Mutex
	last string // step
	text string // the whole line
}

func newStartLine(s *session) *startLine {
	l := &startLine{log: s.stderr}
	if terminal(s.stdout) {
		l.terminal = s.stdout
	}
	return l
}

// eraseLine returns to the start of the line and erases it.
const eraseLine = "\r\x1b[K"

// step adds a step to the line, unless it is the last one again. With "" it removes the line.
func (l *startLine) step(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name == l.last {
		return
	}
	l.last = name
	l.erase()
	switch {
	case name == "":
		l.text = ""
	case l.text == "":
		l.text = strings.ToUpper(name[:1]) + name[1:] + " …"
	default:
		l.text += " " + name + " …"
	}
	l.draw()
}

// Write writes to the log.
func (l *startLine) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	defer l.draw()
	return l.log.Write(line)
}

func (l *startLine) erase() {
	if l.terminal != nil && l.text != "" {
		_, _ = io.WriteString(l.terminal, eraseLine)
	}
}

func (l *startLine) draw() {
	if l.terminal != nil {
		_, _ = io.WriteString(l.terminal, l.text)
	}
}
