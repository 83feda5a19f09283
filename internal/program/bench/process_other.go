//go:build !linux

package main

// launch starts the process.
func (p *process) launch() error {
	if err := p.cmd.Start(); err != nil {
		close(p.done)
		return err
	}
	go func() {
		_ = p.cmd.Wait() // its log shows the reason
		close(p.done)
	}()
	return nil
}

// openFiles returns how many files this process, and a child of it, may open.
func openFiles() int { return 10_500 }
