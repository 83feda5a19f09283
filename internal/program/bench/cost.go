package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cost is CPU time. Unlike a rate it does not depend on the other load of the machine.
type cost struct{ service, database time.Duration }

// tick is the unit of /proc/PID/stat (USER_HZ), the same on every Linux.
const tick = 10 * time.Millisecond

// spent returns the CPU time that the processes of a deployment and the private PostgreSQL have
// used so far, or 0 if the system does not report CPU time.
func (r *rig) spent(d *deployment) cost {
	var c cost
	for _, p := range append([]*process{d.api}, d.workers...) {
		own, _, _ := processorTime(p.cmd.Process.Pid)
		c.service += own
	}
	if r.server == nil {
		return c
	}
	own, ended, _ := processorTime(r.server.Pid())
	c.database = own + ended
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return c
	}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if own, _, parent := processorTime(pid); parent == r.server.Pid() {
			c.database += own
		}
	}
	return c
}

// each describes the cost of one of n operations since before.
func (c cost) each(before cost, n int) string {
	if n == 0 || c.service == before.service {
		return ""
	}
	per := func(d time.Duration) string { return number(milliseconds(d) / float64(n)) }
	text := fmt.Sprintf("processor time for each: service %s ms", per(c.service-before.service))
	if c.database > before.database {
		text += fmt.Sprintf(", PostgreSQL %s ms", per(c.database-before.database))
	}
	return text
}

// processorTime returns the CPU time of a process and of its exited children, and its parent.
func processorTime(pid int) (own, ended time.Duration, parent int) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0
	}
	_, after, found := strings.Cut(string(data), ") ") // the name before it may contain spaces
	fields := strings.Fields(after)
	if !found || len(fields) < 15 {
		return 0, 0, 0
	}
	numbers := make([]int, 0, 5)
	for _, field := range append([]string{fields[1]}, fields[11:15]...) { // ppid, utime, stime, cutime, cstime
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, 0
		}
		numbers = append(numbers, n)
	}
	return time.Duration(numbers[1]+numbers[2]) * tick, time.Duration(numbers[3]+numbers[4]) * tick, numbers[0]
}

// meter adds up the cost of the measured runs of Weft, without those of the floor.
type meter struct {
	rig   *rig
	d     *deployment
	total cost
	count int
}

// around wraps the measurement of one run.
func (m *meter) around(measure func() (sample, error)) func() (sample, error) {
	return func() (sample, error) {
		before := m.rig.spent(m.d)
		s, err := measure()
		after := m.rig.spent(m.d)
		m.total.service += after.service - before.service
		m.total.database += after.database - before.database
		m.count += s.count
		return s, err
	}
}

func (m *meter) String() string { return m.total.each(cost{}, m.count) }
