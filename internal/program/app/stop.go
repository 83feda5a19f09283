package app

import (
	"context"
	"time"

	"github.com/weft-automation/weft/internal/kit/wait"
)

// Stop stops all parts in order: readiness and, after the drain delay, fetching, inline waits and
// streams, the listeners, the workers, notifications, the database. Executions in flight finish
// within the stop timeout or are released to other processes. Stop may be called on a partly built
// App, and more than once.
func (a *App) Stop(ctx context.Context) { a.stopped.Do(func() { a.stop(ctx) }) }

// stopMargin is the time for the other steps of a stop, in addition to the time for work in flight.
const stopMargin = 4 * time.Second

// announceStop reports not ready and keeps serving for the drain delay, so that load balancers send
// their requests elsewhere before the listeners close.
func (a *App) announceStop(ctx context.Context) {
	close(a.unready)
	select {
	case <-a.serving:
	default:
		return // no load balancer has seen this process ready
	}
	if a.api.listener == nil || a.cfg.DrainDelay == 0 {
		return
	}
	_ = wait.For(ctx, a.cfg.DrainDelay)
}

func (a *App) stop(ctx context.Context) {
	a.announceStop(ctx)
	ctx, cancel := context.WithTimeout(ctx, a.cfg.stopTimeout()+stopMargin)
	defer cancel()
	close(a.draining)
	if a.workers != nil {
		a.workers.stopFetching(ctx)
	}
	a.api.close(ctx, a.log)
	a.streams.Wait()
	if a.service != nil {
		a.service.Close()
	}
	if a.workers != nil {
		a.workers.stop(ctx)
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
			a.log.Warn("the last traces could not be exported", "error", err)
		}
	}
}
