package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// idle starts weft dev on its own private PostgreSQL, as a new user does, and sends no requests. The
// server's log counts the statements.
func (r *rig) idle(ctx context.Context) ([]series, error) {
	r.stopServices()
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.dir, "idle")
	p, _, err := r.startIdle(ctx, addr, dir)
	if err != nil {
		return nil, err
	}
	defer func() { p.stop() }()
	p.stop()
	if err := logStatements(dir); err != nil {
		return nil, err
	}
	var memory, statements, restart series
	var own []float64
	for range r.Runs {
		p.stop()
		var took time.Duration
		if p, took, err = r.startIdle(ctx, addr, dir); err != nil {
			return nil, err
		}
		count, err := statementsPerMinute(ctx, dir)
		if err != nil {
			return nil, err
		}
		status, err := p.status()
		if err != nil {
			return nil, err
		}
		memory.ours, own = append(memory.ours, float64(status.VmRSS)/(1<<20)), append(own, float64(status.RssAnon)/(1<<20))
		statements.ours, restart.ours = append(statements.ours, count), append(restart.ours, took.Seconds())
	}
	memory.note = fmt.Sprintf("%.1f MiB of it is private; the rest are pages of its file, whose number depends on the kernel's cache", median(own))
	return []series{memory, statements, restart}, nil
}

// startIdle starts a weft dev and returns it once it is ready, and how long that took.
func (r *rig) startIdle(ctx context.Context, addr, dir string) (*process, time.Duration, error) {
	ops, err := freeAddr()
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	p, err := r.spawn("idle", nil, asWeft, "dev", "--no-proxy", "--addr", addr, "--ops-addr", ops, "--data-dir", dir)
	if err != nil {
		return nil, 0, err
	}
	if err := p.ready(ctx, "http://"+addr+"/readyz"); err != nil {
		p.stop()
		return nil, 0, err
	}
	return p, time.Since(began), nil
}

// statementsPerMinute counts the statements of an idle Weft.
func statementsPerMinute(ctx context.Context, dir string) (float64, error) {
	const settle, watch = 5 * time.Second, 15 * time.Second
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	before, err := countStatements(dir)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, watch); err != nil {
		return 0, err
	}
	after, err := countStatements(dir)
	return float64(after-before) / watch.Minutes(), err
}

// logStatements makes the private server of a data folder log every statement from its next start on.
func logStatements(dir string) error {
	settings, err := os.OpenFile(filepath.Join(dir, "postgres", "data", "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("enable the logging of statements: %w", err)
	}
	defer settings.Close()
	_, err = settings.WriteString("\nlog_statement = 'all'\n")
	return err
}

// countStatements counts the executed statements in the server's log.
func countStatements(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "postgres", "server.log"))
	if err != nil {
		return 0, fmt.Errorf("count statements: %w", err)
	}
	return bytes.Count(text, []byte("LOG:  execute ")) + bytes.Count(text, []byte("LOG:  statement: ")), nil
}
