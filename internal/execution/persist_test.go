package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// raised returns a PostgreSQL error with the specified code.
func raised(code string) error {
	return fmt.Errorf("write: %w", &pgconn.PgError{Code: code, Message: "refused by the test"})
}

func TestPersistRetriesErrorsThatMayPass(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		maxRefusals int
		tries       int
		most        time.Duration // that the retries last; jitter takes up to a half
		logged      int
	}{
		"an error of PostgreSQL":             {raised("P0001"), maxResultRefusals, maxResultRefusals + 1, 15 * time.Second, 1},
		"an error of PostgreSQL at a read":   {raised("P0001"), 0, 1, 0, 0},
		"an error in the data":               {raised("22P05"), maxResultRefusals, 1, 0, 0},
		"an error that is not of PostgreSQL": {errors.New("cannot encode"), maxResultRefusals, 1, 0, 0},
		"a database that is unavailable":     {raised("57P03"), maxResultRefusals, 100, 96 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				r := NewRunner(Deps{}, &Identity{}, 0, slog.New(slog.NewTextHandler(&log, nil)))
				defer r.Close()
				start, tries := time.Now(), 0
				err := r.persist(t.Context(), c.maxRefusals, func(context.Context) error {
					if tries++; tries == 100 {
						return nil
					}
					return c.err
				})
				if tries != c.tries || (err == nil) != (tries == 100) {
					t.Errorf("%d tries, %v; want %d", tries, err, c.tries)
				}
				if lasted := time.Since(start); lasted < c.most/2 || lasted > c.most {
					t.Errorf("it lasted %s, want %s to %s", lasted, c.most/2, c.most)
				}
				if got := strings.Count(log.String(), "\n"); got != c.logged {
					t.Errorf("it logged %d lines, want %d: %s", got, c.logged, log.String())
				}
			})
		})
	}
}

// persist returns when its caller's context is done or the process stops.
func TestPersistStopsWithItsCallerAndItsProcess(t *testing.T) {
	for what, code := range map[string]string{"a refusal": "P0001", "a database that is unavailable": "57P03"} {
		for who, stop := range map[string]func(r *Runner, cancel context.CancelFunc){
			"the caller":  func(_ *Runner, cancel context.CancelFunc) { cancel() },
			"the process": func(r *Runner, _ context.CancelFunc) { r.Close() },
		} {
			t.Run(what+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := NewRunner(Deps{}, &Identity{}, 0, slog.New(slog.DiscardHandler))
					defer r.Close()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					start, tries := time.Now(), 0
					done := make(chan error, 1)
					go func() {
						done <- r.persist(ctx, maxResultRefusals, func(context.Context) error { tries++; return raised(code) })
					}()
					synctest.Wait()
					stop(r, cancel)
					if err := <-done; err == nil || tries != 1 || time.Since(start) != 0 {
						t.Errorf("it ended with %v after %d tries and %s", err, tries, time.Since(start))
					}
				})
			})
		}
	}
}
