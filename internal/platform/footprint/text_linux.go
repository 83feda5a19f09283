package footprint

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// unmapText lets go of the program's own pages, most of which only a start needs: the
// kernel maps those again that are used, from its cache, sixteen with each fault. A part
// in which a debugger or a probe has put pages of its own keeps all of them. What cannot be
// let go stays, as it costs nothing but room.
func unmapText() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	for _, part := range textParts(bufio.NewScanner(maps), program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, part.begin, part.end-part.begin, syscall.MADV_DONTNEED)
	}
}

type textPart struct{ begin, end uintptr }

// textParts gives where smaps (proc_pid_smaps(5)) says that pages of the program lie which
// nobody can have written.
func textParts(smaps *bufio.Scanner, program string) []textPart {
	var parts []textPart
	var last *textPart
	for smaps.Scan() {
		line := smaps.Text()
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "Anonymous:" {
			if last != nil && fields[1] == "0" {
				parts = append(parts, *last)
			}
			last = nil
			continue
		}
		if len(fields) < 6 || !strings.HasSuffix(line, " "+program) || strings.Contains(fields[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil {
			last = &textPart{uintptr(begin), uintptr(end)}
		}
	}
	return parts
}
