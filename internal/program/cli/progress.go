package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	sayEvery    = 10 * time.Second       // elsewhere

	progressWidth = 79 // the line doesn't wrap, so that it can be erased
	eraseLine     = "\r\x1b[K"
)

// progress shows on stderr what a command waits for. A terminal gets a line that is redrawn. Other outputs
// get a line every ten seconds. Until end is called, the session writes to stderr through progress, so that
// no other output continues a line that will be redrawn.
type progress struct {
	out   io.Writer
	live  bool
	quiet bool
	began time.Time
	over  chan struct{}
	done  sync.WaitGroup
	end   func() // erases the line; may be called again

	mu    sync.Mutex
	text  string
	drawn bool // the line is on the screen
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
		p.erase()
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

// show replaces the text. It is written at the next tick.
func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// say writes the text now, except on a terminal.
func (p *progress) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live && !p.quiet {
		_, _ = fmt.Fprintln(p.out, p.text)
	}
}

// tick writes the text and the time since the start.
func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.began)
	switch {
	case p.quiet:
	case p.live:
		end := fmt.Sprintf("  %.1f s", took.Seconds())
		_, _ = io.WriteString(p.out, eraseLine+cut(p.text, progressWidth-len(end))+end)
		p.drawn = true
	default:
		_, _ = fmt.Fprintf(p.out, "%s  %.0f s\n", p.text, took.Seconds())
	}
}

// Write writes other output. On a terminal, the line moves below it at the next tick.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	return p.out.Write(text)
}

func (p *progress) erase() {
	if p.drawn {
		_, _ = io.WriteString(p.out, eraseLine)
	}
	p.drawn = false
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
