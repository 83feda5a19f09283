package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// soak is true if the scenarios run at full size and length.
var soak = os.Getenv("WEFT_SOAK") != ""

// size returns one of two sizes of a scenario.
func size[T any](quick, whole T) T {
	if soak {
		return whole
	}
	return quick
}

// program is the path of the weft binary under test, built once for each run.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios spend most of their time waiting, so more scenarios than cores run in parallel. At
	// full size the scenarios measure durations, so fewer run in parallel.
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", size("8", "6"))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if testing.Verbose() {
		figures.print()
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "weft-chaos-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return 1, err
	}
	program = filepath.Join(dir, "weft")
	build := exec.Command("go", "build", "-o", program, "github.com/weft-automation/weft/cmd/weft")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build weft: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if shared, err = startServer(ctx, filepath.Join(dir, "shared"), map[string]string{
		"max_connections": "900", "fsync": "off", "shared_buffers": "128MB",
	}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.stop()) }()
	if err := shared.makeTemplate(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// table collects what the scenarios measured, for the person who runs them.
type table struct {
	mu   sync.Mutex
	rows [][2]string
}

var figures table

// note adds a line.
func (f *table) note(t testing.TB, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, [2]string{t.Name(), text})
}

func (f *table) print() {
	f.mu.Lock()
	defer f.mu.Unlock()
	width := 0
	for _, row := range f.rows {
		width = max(width, len(shorten(row[0])))
	}
	fmt.Println()
	for _, row := range f.rows {
		fmt.Printf("%-*s  %s\n", width, shorten(row[0]), row[1])
	}
}

// shorten reduces a test's name to its row: TestEX01OneOfTwoWorkers becomes EX01.
func shorten(name string) string {
	name, rest, _ := strings.Cut(strings.TrimPrefix(name, "Test"), "/")
	name = name[:min(4, len(name))]
	if rest != "" {
		name += "/" + rest
	}
	return name
}

// eventually waits until the condition holds and returns how long it waited. Only the soak enforces
// the limit; otherwise eventually waits as long as the test's timeout allows. On failure it reports
// the string that the condition returns.
func eventually(t testing.TB, limit time.Duration, what string, condition func() (bool, string)) time.Duration {
	t.Helper()
	if !waittest.Timed() {
		limit = time.Until(waittest.Deadline(t))
	}
	began := time.Now()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		last := time.Since(began) > limit
		ok, missing := condition()
		if ok {
			return time.Since(began)
		}
		if last {
			t.Fatalf("%s: not within %v: %s", what, limit, missing)
		}
		<-ticker.C
	}
}

// during calls action at an interval for the given time.
func during(ctx context.Context, length, every time.Duration, action func()) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			action()
		}
	}
}

// hold keeps a fault in place for the given time.
func hold(t testing.TB, length time.Duration) {
	t.Helper()
	during(t.Context(), length, length, func() {})
}
