package footprint

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestOnlyPagesNobodyWroteAreLetGo(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 7                           /srv/we ft
Rss:                 900 kB
Anonymous:             0 kB
00500000-00600000 r--p 00100000 fe:00 7                           /srv/we ft
Rss:                 900 kB
Anonymous:             4 kB
00600000-00700000 rw-p 00200000 fe:00 7                           /srv/we ft
Anonymous:             0 kB
00700000-00800000 r--p 00100000 fe:00 7                           /srv/we ft
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fe:00 8                   /lib/libc.so
Anonymous:             0 kB
`
	got := textParts(bufio.NewScanner(strings.NewReader(smaps)), "/srv/we ft")
	if want := []textPart{{0x400000, 0x500000}, {0x700000, 0x800000}}; !slices.Equal(got, want) {
		t.Fatalf("%x would go, %x should", got, want)
	}
}

// TestWhatOnlyTheStartNeededIsLetGo is about the whole process: not parallel.
func TestWhatOnlyTheStartNeededIsLetGo(t *testing.T) {
	before := mappedFiles(t)
	unmapText()
	if after := mappedFiles(t); after >= before {
		t.Fatalf("%d kB of files are mapped, of %d kB before", after, before)
	}
}

// mappedFiles gives the kilobytes of files that the kernel maps for this process
// (proc_pid_status(5)).
func mappedFiles(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes
}
