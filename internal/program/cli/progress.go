package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	sayEvery    = 10 * time.Second       // elsewhere

	progressWidth = 79 // no line wraps, so the number of lines drawn is known
	progressLines = 12
)

// progress shows on stderr what a command waits for. A terminal gets lines that are redrawn. Other
// outputs get a line every ten seconds. Until end is called, the session writes to stderr through
// progress, so that no other output continues a line that will be redrawn.
type progress struct {
	out   io.Writer
	live  bool
	quiet bool
	began time.Time
	over  chan struct{}
	done  sync.WaitGroup
	end   func() // removes the lines; may be called again

	mu    sync.Mutex
	lines []string
	drawn int // lines on the screen
}

// wait starts to show what the command waits for.
func (s *session) wait(format string, args ...any) *progress {
	p := &progress{out: s.stderr, live: terminal(s.stderr), quiet: s.Quiet, began: time.Now(), over: make(chan struct{})}
	p.show(fmt.Sprintf(format, args...))
	s.stderr = p
	p.done.Go(p.run)
	p.end = sync.OnceFunc(func() {
		close(p.over)
		p.done.Wait()
		if p.drawn > 0 {
			_, _ = io.WriteString(p.out, p.erasure())
		}
		s.stderr = p.out
	})
	return p
}

func (p *progress) run() {
	every := sayEvery
	if p.live {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			return
		case <-tick.C:
			p.tick()
		}
	}
}

// show replaces the lines. They are written at the next tick.
func (p *progress) show(lines ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = lines
}

// say writes the lines as one line now, except on a terminal.
func (p *progress) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live && !p.quiet {
		_, _ = fmt.Fprintln(p.out, p.line())
	}
}

// line returns the lines as one line.
func (p *progress) line() string {
	if len(p.lines) < 2 {
		return strings.Join(p.lines, "")
	}
	return p.lines[0] + ": " + strings.Join(p.lines[1:], ", ")
}

// tick writes the lines and the time since the start.
func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.began)
	switch {
	case p.quiet:
	case p.live:
		p.redraw(took)
	default:
		_, _ = fmt.Fprintf(p.out, "%s  %.0f s\n", p.line(), took.Seconds())
	}
}

func (p *progress) redraw(took time.Duration) {
	var frame strings.Builder
	frame.WriteString(p.erasure())
	for i, line := range p.lines {
		switch {
		case i == 0:
			line = fmt.Sprintf("%s  %.1f s", line, took.Seconds())
		case i == progressLines-1 && len(p.lines) > progressLines:
			line = "  ..."
		default:
			line = "  " + line
		}
		frame.WriteString(cut(line, progressWidth) + "\n")
		if p.drawn++; p.drawn == progressLines {
			break
		}
	}
	_, _ = io.WriteString(p.out, frame.String())
}

// Write writes other output. On a terminal, the lines move below it at the next tick.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn > 0 {
		_, _ = io.WriteString(p.out, p.erasure())
	}
	return p.out.Write(text)
}

// erasure returns the control sequence that removes the lines from the screen.
func (p *progress) erasure() string {
	if p.drawn == 0 {
		return ""
	}
	text := fmt.Sprintf("\x1b[%dA\r\x1b[J", p.drawn)
	p.drawn = 0
	return text
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
