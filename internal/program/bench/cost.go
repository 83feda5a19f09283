package main

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// cost is CPU time in seconds. Unlike a rate it does not depend on the other load of the machine.
type cost struct{ service, database float64 }

// spent returns the CPU time that the processes of a deployment and the private PostgreSQL have
// used so far, or 0 if the system does not report CPU time.
func (r *rig) spent(d *deployment) cost {
	var c cost
	for _, p := range append([]*process{d.api}, d.workers...) {
		c.service += processorTime(p.cmd.Process.Pid).CPUTime()
	}
	if r.server == nil {
		return c
	}
	const userHZ = 100 // the unit of CUTime and CSTime on every Linux
	server := processorTime(r.server.Pid())
	c.database = server.CPUTime() + float64(server.CUTime+server.CSTime)/userHZ
	all, err := procfs.AllProcs()
	if err != nil {
		return c
	}
	for _, p := range all {
		if s := processorTime(p.PID); s.PPID == r.server.Pid() {
			c.database += s.CPUTime()
		}
	}
	return c
}

// processorTime returns the counters of a process. They are 0 if it has exited.
func processorTime(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	s, err := p.Stat()
	if err != nil {
		return procfs.ProcStat{}
	}
	return s
}

// add adds what was spent between two readings.
func (c *cost) add(before, after cost) {
	c.service += after.service - before.service
	c.database += after.database - before.database
}

// each describes the cost of one of n operations.
func (c cost) each(n int) string {
	if n == 0 || c.service == 0 {
		return ""
	}
	text := fmt.Sprintf("processor time for each: service %s ms", number(1000*c.service/float64(n)))
	if c.database > 0 {
		text += fmt.Sprintf(", PostgreSQL %s ms", number(1000*c.database/float64(n)))
	}
	return text
}
