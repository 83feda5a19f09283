package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sized starts a server that sends as many bytes as the path of the request says. After these
// bytes, the response stays open.
func sized(t *testing.T) (*Guard, string) {
	t.Helper()
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64)
		_, _ = io.CopyN(w, zeros{}, size)
		_ = http.NewResponseController(w).Flush()
		<-end
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	guard := New(Policy{Allow: loopback()})
	t.Cleanup(guard.Close)
	return guard, server.URL
}

// fetch reads size bytes of a response and leaves it open.
func fetch(ctx context.Context, t *testing.T, guard *Guard, url string, size int64) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/"+strconv.FormatInt(size, 10), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := guard.Client(ClientOptions{}).Do(request)
	if err != nil {
		return err
	}
	t.Cleanup(func() { response.Body.Close() })
	_, err = io.CopyN(io.Discard, response.Body, size)
	return err
}

// inMemory returns how many responses of each class are in memory.
func (b *budget) inMemory() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.held)
}

func TestATenantThatFillsItsShareLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	guard, url := sized(t)
	hostile, finish := context.WithCancel(t.Context())
	hostile = WithTenant(hostile, "hostile")
	for range 4 {
		if err := fetch(hostile, t, guard, url, 2<<20); err != nil {
			t.Fatal(err)
		}
	}
	if held := guard.responses.inMemory(); !slices.Equal(held, []int{0, 0, 4}) {
		t.Fatalf("%v responses are in memory", held)
	}
	more, stop := context.WithTimeout(hostile, 100*time.Millisecond)
	defer stop()
	if err := fetch(more, t, guard, url, 2<<20); err == nil {
		t.Error("the tenant reads more than its share")
	}
	for _, size := range []int64{smallResponse, 256 << 10, 1 << 20} {
		if err := fetch(hostile, t, guard, url, size); err != nil {
			t.Errorf("a response of %d bytes: %v", size, err)
		}
	}
	honest, done := context.WithCancel(t.Context())
	if err := fetch(WithTenant(honest, "honest"), t, guard, url, 4<<20); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	finish()
	done()
	again, stop := context.WithCancel(t.Context())
	defer stop()
	for range 4 {
		if err := fetch(WithTenant(again, "again"), t, guard, url, 2<<20); err != nil {
			t.Errorf("after the others finished: %v", err)
		}
	}
}

// Each response waits for its slot while it occupies little memory, so no response fails.
func TestConcurrentLargeResponsesAreAllRead(t *testing.T) {
	t.Parallel()
	guard, url := sized(t)
	var running sync.WaitGroup
	for i := range 60 {
		running.Go(func() {
			ctx, done := context.WithCancel(t.Context())
			defer done()
			if err := fetch(WithTenant(ctx, strconv.Itoa(i%7)), t, guard, url, 2<<20); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	running.Wait()
}

func TestAResponseWithoutATenantIsReleasedByClose(t *testing.T) {
	t.Parallel()
	guard, url := sized(t)
	for range 10 {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/2000000", nil)
		response, err := guard.Client(ClientOptions{}).Do(request)
		if err == nil {
			_, err = io.CopyN(io.Discard, response.Body, 2_000_000)
			response.Body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if held := guard.responses.inMemory(); slices.Max(held) != 0 {
		t.Errorf("%v responses are in memory", held)
	}
}

func TestATenantWithoutASlotFailsAfterBusyPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, class := newBudget(), len(sizes)-1
		for range 4 {
			if err := b.acquire(t.Context(), class, "a"); err != nil {
				t.Fatal(err)
			}
		}
		started := time.Now()
		if err := b.acquire(t.Context(), class, "a"); !errors.Is(err, ErrBusy) || time.Since(started) != busyPatience {
			t.Errorf("%v after %s", err, time.Since(started))
		}
		time.AfterFunc(time.Second, func() { b.release(class, "a") })
		started = time.Now()
		if err := b.acquire(t.Context(), class, "a"); err != nil || time.Since(started) != time.Second {
			t.Errorf("%v after %s", err, time.Since(started))
		}
		for i := range 4 {
			if err := b.acquire(t.Context(), class, strconv.Itoa(i)); err != nil {
				t.Errorf("tenant %d: %v", i, err)
			}
		}
		if err := b.acquire(t.Context(), class, "last"); !errors.Is(err, ErrBusy) {
			t.Errorf("one slot too many: %v", err)
		}
	})
}

// piped returns a body that is read from a pipe.
func piped(t *testing.T) (*bounded, *io.PipeWriter) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reader, writer := io.Pipe()
	return &bounded{ReadCloser: reader, left: 1 << 30, budget: newBudget(), ctx: ctx, cancel: cancel}, writer
}

func TestAStalledLargeResponseIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, writer := piped(t)
		go func() {
			_, _ = writer.Write(make([]byte, smallResponse+1))
			for range 3 {
				<-time.After(progressTime - time.Second)
				_, _ = writer.Write(make([]byte, block))
			}
			<-time.After(progressTime - time.Second)
			if body.ctx.Err() != nil {
				t.Error("cancelled although it made progress")
			}
			<-time.After(2 * time.Second)
			writer.Close()
		}()
		if _, _ = io.Copy(io.Discard, body); context.Cause(body.ctx) != errStalled {
			t.Errorf("cancelled because of %v", context.Cause(body.ctx))
		}
		if body.Close(); slices.Max(body.budget.held) != 0 {
			t.Errorf("%v responses are in memory", body.budget.held)
		}
	})
}

func TestASmallResponseHasNoProgressTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, writer := piped(t)
		go func() {
			for range 10 {
				_, _ = writer.Write(make([]byte, smallResponse/10))
				<-time.After(2 * progressTime)
			}
			writer.Close()
		}()
		if _, err := io.Copy(io.Discard, body); err != nil || body.ctx.Err() != nil {
			t.Errorf("%v, cancelled because of %v", err, context.Cause(body.ctx))
		}
		body.Close()
	})
}

func TestAStalledResponseIsATimeout(t *testing.T) {
	t.Parallel()
	guard, url := sized(t)
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/1", nil)
	response, err := (&guarded{guard: guard, maxBytes: 1000}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	response.Body.(*bounded).cancel(errStalled)
	if _, err := io.ReadAll(response.Body); Class(err) != ClassTimeout {
		t.Errorf("class %q, %v", Class(err), err)
	}
}
