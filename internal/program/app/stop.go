package app

import (
	"context"
	"time"

	"github.com/weft-automation/weft/internal/kit/wait"
)

// Stop stops everything in order: readiness, then after the drain delay the fetching of
// work, inline waits and streams, the listeners, the workers, the wake-ups, the database.
// Executions in flight finish within the stop timeout or are released to other processes.
// It may be called on a half-built App, and more than once.
func (a *App) Stop(ctx context.Context) { a.stopped.Do(func() { a.stop(ctx) }) }

// stopMargin is what the stop may take beyond the time that work in flight has.
const stopMargin = 4 * time.Second

// leave turns readiness false and serves on for the drain delay, so that load
// balancers send their requests elsewhere before the listeners close.
func (a *App) leave(ctx context.Context) {
	close(a.leaving)
	select {
	case <-a.serving:
	default:
		return // no load balancer has seen it ready
	}
	if a.api.listener == nil || a.cfg.DrainDelay == 0 {
		return
	}
	_ = wait.For(ctx, a.cfg.DrainDelay)
}

func (a *App) stop(ctx context.Context) {
	a.leave(ctx)
	ctx, cancel := context.WithTimeout(ctx, a.cfg.stopTimeout()+stopMargin)
	defer cancel()
	close(a.draining)
	if a.half != nil {
		a.half.stopFetching(ctx)
	}
	a.api.close(ctx, a.log)
	a.streams.Wait()
	if a.service != nil {
		a.service.Close()
	}
	if a.half != nil {
		a.half.stop(ctx)
	} else if a.runner != nil {
		a.runner.Drain(ctx)
		a.runner.Close()
	}
	if a.schedules != nil {
		a.schedules.Close()
	}
	if a.engine != nil {
		a.engine.Close()
	}
	a.background()
	a.ops.close(ctx, a.log)
	a.running.Wait()
	if a.limiter != nil {
		a.limiter.Close()
	}
	if a.guard != nil {
		a.guard.Close()
	}
	if a.pools != nil {
		a.pools.close()
	}
	if a.untrace != nil {
		if err := a.untrace(ctx); err != nil {
			a.log.Warn("the last traces were not sent", "error", err)
		}
	}
}
