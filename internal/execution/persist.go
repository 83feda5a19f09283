package execution

import (
	"context"
	"time"

	"github.com/weft-automation/weft/internal/postgres"
)

// One try of a write is bounded: a connection may be half dead. While the
// process stops, the bound is what the stop allows.
const (
	writeTimeout     = 15 * time.Second
	lastWriteTimeout = 3 * time.Second
)

func within(ctx context.Context, timeout time.Duration, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return work(ctx)
}

// resultTries is how often the result of an attempt is written, over about a minute, if the
// database answers with an error that is not known to be temporary. The component must not run
// again because its result was dropped.
const resultTries = 60

// persist repeats a write while the database cannot serve: a result that exists in memory only is
// not given up while this process lives. If the write fails for another reason, persist returns
// the error after so many tries.
func (r *Runner) persist(ctx context.Context, tries int, write func(context.Context) error) error {
	delay := 50 * time.Millisecond
	for {
		timeout := writeTimeout
		if r.ctx.Err() != nil {
			timeout = lastWriteTimeout
		}
		err := within(context.WithoutCancel(ctx), timeout, write)
		if err == nil {
			return nil
		}
		if !postgres.Unavailable(err) {
			if tries--; tries <= 0 {
				return err
			}
			r.log.WarnContext(ctx, "the database refused a write, which is tried again", "tries_left", tries, "error", err)
		}
		select {
		case <-r.ctx.Done():
			return err
		case <-time.After(delay):
		}
		delay = min(2*delay, time.Second)
	}
}
