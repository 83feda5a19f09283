package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// minColumn is the width that a column keeps in a narrow terminal.
const minColumn = 12

// table writes aligned columns. On a terminal, its lines don't wrap.
type table struct {
	out   io.Writer
	width int // 0: unlimited
	color bool
	first []int // columns that are left out first
	rows  [][]string
}

func (s *session) newTable(out io.Writer, columns ...string) *table {
	t := &table{out: out, width: s.width(), color: terminal(s.stdout) && !s.NoColor && s.getenv("NO_COLOR") == ""}
	if len(columns) > 0 {
		t.row(columns...)
	}
	return t
}

// width returns the width of a terminal, which COLUMNS overrides, or 0 if the output is not a terminal.
func (s *session) width() int {
	file, ok := s.stdout.(*os.File)
	if !ok || !terminal(file) {
		return 0
	}
	if columns, err := strconv.Atoi(s.getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// when formats a time: how long ago it is on a terminal, else the date and the time in UTC.
func (s *session) when(at time.Time) string {
	if s.width() == 0 {
		return at.UTC().Format(time.DateTime)
	}
	form, took := "%s ago", time.Since(at)
	if took < 0 {
		form, took = "in %s", -took
	}
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if took >= unit.size {
			return fmt.Sprintf(form, strconv.Itoa(int(took/unit.size))+unit.name)
		}
	}
	return fmt.Sprintf(form, strconv.Itoa(int(took/time.Second))+"s")
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// flush writes the table.
func (t *table) flush() error {
	var text strings.Builder
	for widths := t.fit(); len(t.rows) > 0; t.rows = t.rows[1:] {
		var line strings.Builder
		for i, cell := range t.rows[0] {
			if widths[i] == 0 {
				continue
			}
			cell = cut(cell, widths[i])
			line.WriteString(t.paint(cell))
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.out, text.String())
	return err
}

// fit returns the widths of the columns. If they don't fit, the widest columns are cut, except for IDs. If
// that isn't enough, columns are left out: those of t.first, then those before the last one.
func (t *table) fit() []int {
	var whole []int
	fixed := map[int]bool{}
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(whole) {
				whole = append(whole, 0)
			}
			whole[i] = max(whole[i], utf8.RuneCountInString(cell))
			if _, err := uuid.Parse(cell); err == nil {
				fixed[i] = true
			}
		}
	}
	if t.width == 0 {
		return whole
	}
	left := slices.Clone(t.first)
	for i := len(whole) - 2; i > 0; i-- {
		left = append(left, i)
	}
	for {
		widths, over := t.shrink(whole, fixed)
		if over <= 0 || len(left) == 0 {
			return widths
		}
		whole[left[0]], left = 0, left[1:]
	}
}

// shrink cuts the widest columns to fit, down to minColumn. over is by how much the table is still too wide.
func (t *table) shrink(whole []int, fixed map[int]bool) (widths []int, over int) {
	widths, over = slices.Clone(whole), -2-t.width
	for _, width := range widths {
		if width > 0 {
			over += width + 2
		}
	}
	for over > 0 {
		widest := -1
		for i, width := range widths {
			if !fixed[i] && width > minColumn && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, over
		}
		by := min(over, widths[widest]-minColumn)
		widths[widest] -= by
		over -= by
	}
	return widths, over
}

// cut shortens text to a width.
func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// colors are the colors of statuses on a terminal.
var colors = map[string]string{"COMPLETED": "32", "ACTIVE": "32", "ok": "32", "FAILED": "31", "WRONG": "31", "CANCELED": "33", "PAUSED": "33", "warning": "33"}

func (t *table) paint(cell string) string {
	if color := colors[cell]; color != "" && t.color {
		return "\x1b[" + color + "m" + cell + "\x1b[0m"
	}
	return cell
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
