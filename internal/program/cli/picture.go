package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/status"
)

const (
	pictureWidth = 79 // no line wraps, so the number of lines drawn is known
	pictureLines = 12
)

// picture shows the state of a run. A terminal gets lines that are redrawn. Other outputs get a line
// for each change, at most one a second unless the status changed.
type picture struct {
	out    io.Writer
	live   bool
	began  time.Time
	state  api.RunEvent
	output api.RunEventOutput
	fresh  bool       // state has not been shown yet
	shown  status.Run // status in the last line
	lines  int        // lines of the picture on the terminal
}

func newPicture(out io.Writer) *picture {
	return &picture{out: out, began: time.Now(), live: terminal(out)}
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

// interval returns how often draw should be called.
func (p *picture) interval() time.Duration {
	if p.live {
		return 100 * time.Millisecond
	}
	return time.Second
}

// update stores the latest state.
func (p *picture) update(event api.RunEvent) {
	p.state, p.output, p.fresh = event, api.RunEventOutput{}, true
	_ = json.Unmarshal(event.Output, &p.output) // each field may be missing
	if !p.live && event.Status != p.shown {
		p.draw()
	}
}

// draw shows the state.
func (p *picture) draw() {
	switch {
	case p.state.Status == "":
	case p.live:
		p.redraw()
	case p.fresh:
		p.fresh, p.shown = false, p.state.Status
		line := p.head()
		if groups := p.groups(); len(groups) > 0 {
			line += ": " + strings.Join(groups, ", ")
		}
		_, _ = fmt.Fprintln(p.out, line)
	}
}

func (p *picture) redraw() {
	lines := []string{fmt.Sprintf("%s  %.1f s", p.head(), time.Since(p.began).Seconds())}
	for _, group := range p.groups() {
		lines = append(lines, "  "+group)
	}
	if len(lines) > pictureLines {
		lines = append(lines[:pictureLines-1], "  ...")
	}
	var frame strings.Builder
	p.erase(&frame)
	for _, line := range lines {
		if runes := []rune(line); len(runes) > pictureWidth {
			line = string(runes[:pictureWidth])
		}
		frame.WriteString(line + "\n")
	}
	p.lines = len(lines)
	_, _ = io.WriteString(p.out, frame.String())
}

// clear removes the picture, before something else is printed.
func (p *picture) clear() {
	if p.lines == 0 {
		return
	}
	var frame strings.Builder
	p.erase(&frame)
	p.lines = 0
	_, _ = io.WriteString(p.out, frame.String())
}

func (p *picture) erase(frame *strings.Builder) {
	if p.lines > 0 {
		fmt.Fprintf(frame, "\x1b[%dA\r\x1b[J", p.lines)
	}
}

func (p *picture) head() string {
	head := fmt.Sprintf("%-9s  usage %v  pending %d", p.state.Status, p.output.TotalUsage, p.output.PendingStageCount)
	if p.output.FailedStageCount > 0 {
		head += fmt.Sprintf("  failed %d", p.output.FailedStageCount)
	}
	if p.output.CancelRequestedAt != nil {
		head += "  cancel requested"
	}
	return head
}

// groups counts the unfinished stages by module and status.
func (p *picture) groups() []string {
	var order []string
	counts := map[string]int{}
	for _, stage := range p.output.NonTerminalStages {
		group := printable(stage.Module) + " " + string(stage.Status)
		if counts[group]++; counts[group] == 1 {
			order = append(order, group)
		}
	}
	for i, group := range order {
		if n := counts[group]; n > 1 {
			order[i] = fmt.Sprintf("%s x%d", group, n)
		}
	}
	if rest := int(p.output.PendingStageCount) - len(p.output.NonTerminalStages); rest > 0 {
		order = append(order, fmt.Sprintf("%d more", rest))
	}
	return order
}

// printable returns text from the service without control characters, which a terminal would
// interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, text)
}
