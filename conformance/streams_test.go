package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/program/conformseed"
)

// crowd is a separate service, for tests that measure its use of resources.
type crowd struct {
	dsn       string
	authority *probe.Authority
	pool      *pgxpool.Pool
	node      *app.App
	target    *probe.Target // the first workspace of the deployment
}

// newCrowd starts a crowd. It returns nil if the tests did not start the deployment, because the
// test measures the service from inside.
func newCrowd(t *testing.T) *crowd {
	t.Helper()
	if os.Getenv("CONFORMANCE_URL") != "" {
		t.Log("this test looks at the inside of a service that it starts itself")
		return nil
	}
	authority, err := probe.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{dsn: pgtest.DSN(t), authority: authority}
	c.node = node(t, c.dsn, authority)
	t.Cleanup(func() { c.node.Stop(context.Background()) })
	if c.pool, err = postgres.Open(t.Context(), c.dsn, "conformance", postgres.Owner, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	return c
}

// as returns the service as the target of a new workspace.
func (c *crowd) as(t *testing.T, name string) *probe.Target {
	t.Helper()
	credentials := makeTenant(t, t.Context(), c.pool, c.node.URL(), name)
	if c.target == nil {
		var err error
		if c.target, err = probe.Reach(credentials); err != nil {
			t.Fatal(err)
		}
		c.target.Authority, c.target.Unhurried = c.authority, !waittest.Timed()
	}
	target := *c.target
	target.Credentials = credentials
	return &target
}

// open opens a stream on a raw connection, to minimize the cost of the client, and reads the
// header and the first event.
func open(t *probe.Trial, id string) (net.Conn, *bufio.Reader) {
	conn := t.Dial()
	deadline, _ := t.Context().Deadline()
	t.NoError("deadline", conn.SetDeadline(deadline))
	_, err := io.WriteString(conn, t.Head(http.MethodGet, probe.Execution(id)+"/stream", nil)+"\r\n")
	t.NoError("write", err)
	reader := bufio.NewReaderSize(conn, 512)
	line, err := reader.ReadString('\n')
	t.NoError("status line", err)
	t.Check(strings.Contains(line, " 200 "), "%s", line)
	for !strings.HasPrefix(line, "data:") {
		line, err = reader.ReadString('\n')
		t.NoError("first event", err)
	}
	return conn, reader
}

// waiting starts an execution that runs until letGo is called.
func waiting(t *probe.Trial) (id string, letGo func()) {
	url, letGo, asked := held(t)
	call := probe.Fetch(url)
	call.Config["timeoutMs"] = 120_000
	id = t.Execute(call).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	return id, letGo
}

func soak() bool { return os.Getenv("WEFT_SOAK") != "" }

func passes(t *testing.T, target *probe.Target, run func(*probe.Trial)) {
	t.Helper()
	if err := probe.Run(t.Context(), target, run); err != nil {
		t.Error(err)
	}
}

// pools is the largest number of database connections that a node has: its pools have up to 62, which they
// keep for minutes after a busy time, and the rest are listeners. It does not depend on the number of open streams.
const pools = 70

func TestSS06IdleStreamsCostLittle(t *testing.T) {
	c := newCrowd(t)
	if c == nil {
		return
	}
	workspaces, each := 50, 6
	if soak() {
		workspaces, each = 500, 2
	}
	targets := make([]*probe.Target, workspaces)
	for i := range targets {
		targets[i] = c.as(t, fmt.Sprint("crowd", i))
	}
	passes(t, targets[0], func(p *probe.Trial) {
		url, _, asked := held(p)
		call := probe.Fetch(url)
		call.Config["timeoutMs"] = 120_000
		first := p.Execute(call).ID.String()
		p.Until("the upstream is asked", 20*time.Second, asked)
		open(p, first)
		memory := resident(t)

		turns := make(chan struct{}, 16) // to open streams
		var opened sync.WaitGroup
		opened.Add(workspaces)
		measured := make(chan struct{})
		var began time.Time
		var spent time.Duration
		p.Parallel(workspaces+1, func(i int) {
			if i < workspaces {
				p.NoError(fmt.Sprint("workspace ", i), probe.Run(p.Context(), targets[i], func(w *probe.Trial) {
					idle(w, call, each, turns, &opened, measured)
				}))
				return
			}
			opened.Wait()
			defer close(measured)
			more := resident(t) - memory
			p.Check(more <= 64<<20, "the streams take %d MiB", more>>20)
			n := c.connections(t)
			p.Check(n <= pools, "%d connections to the database for %d streams", n, workspaces*each)
			began, spent = time.Now(), processor(t)
		})
		took, computed := time.Since(began), processor(t)-spent
		p.Check(!soak() || computed < took/10, "%v of a processor in %v", computed, took)
	})
}

// idle keeps streams open until they are measured, and in the soak test until each has received
// a heartbeat.
func idle(t *probe.Trial, call probe.Call, streams int, turns chan struct{}, opened *sync.WaitGroup, measured <-chan struct{}) {
	readers := make([]*bufio.Reader, streams)
	turns <- struct{}{}
	err := probe.Caught(func() {
		id := t.Execute(call).ID.String()
		for i := range readers {
			_, readers[i] = open(t, id)
		}
	})
	<-turns
	opened.Done()
	t.NoError("open the streams", err)
	began := time.Now()
	<-measured
	if !soak() {
		return
	}
	for _, reader := range readers {
		line, err := reader.ReadString(':')
		t.Check(err == nil, "no ping: %q %v", line, err)
	}
	t.Soon(time.Since(began), 17*time.Second, "the last ping came after %v", time.Since(began))
}

// connections returns the number of database connections of the service.
func (c *crowd) connections(t *testing.T) (n int) {
	t.Helper()
	if err := c.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name NOT LIKE '%conformance%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// resident returns the memory of this process, which includes the service and the clients.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// processor returns the CPU time of this process.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestSS07StreamsThatComeAndGoLeaveNothing(t *testing.T) {
	c := newCrowd(t)
	if c == nil {
		return
	}
	rounds := 600
	if soak() {
		rounds = 20_000
	}
	passes(t, c.as(t, "crowd"), func(p *probe.Trial) {
		id, _ := waiting(p)
		conn, _ := open(p, id)
		conn.Close()
		// A process that comes to lead the upkeep of the queue meanwhile begins some twenty.
		most := runtime.NumGoroutine() + 50
		p.Parallel(8, func(int) {
			for range rounds / 8 {
				conn, _ := open(p, id)
				conn.Close()
			}
		})
		defer func() {
			if runtime.NumGoroutine() > most {
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			}
		}()
		p.Until("the goroutines are back to what they were", 30*time.Second, func() bool {
			return runtime.NumGoroutine() <= most
		})
	})
}

func TestSS08AStoppingNodeHandsItsStreamsOver(t *testing.T) {
	c := newCrowd(t)
	if c == nil {
		return
	}
	other := node(t, c.dsn, c.authority)
	t.Cleanup(func() { other.Stop(context.Background()) })
	here := c.as(t, "crowd")
	if err := conformseed.Offer(t.Context(), c.pool, here); err != nil {
		t.Fatal(err)
	}
	there := *here
	there.BaseURL = other.URL()
	const clients = 200
	passes(t, here, func(p *probe.Trial) {
		id, letGo := waiting(p)
		var opened, closed sync.WaitGroup
		var stopped, finals atomic.Int64
		opened.Add(clients)
		closed.Add(clients)
		p.Parallel(clients+1, func(i int) {
			if i == clients {
				opened.Wait()
				start := time.Now()
				done := make(chan struct{})
				go func() { c.node.Stop(context.Background()); close(done) }()
				closed.Wait()
				p.Soon(time.Since(start), 10*time.Second, "the streams ended after %v", time.Since(start))
				letGo()
				<-done
				stopped.Store(int64(time.Since(start)))
				return
			}
			_, reader := open(p, id)
			opened.Done()
			rest, err := io.ReadAll(reader)
			closed.Done()
			p.NoError("the end of the stream", err)
			p.Check(!strings.Contains(string(rest), "COMPLETED"), "the end came before it happened: %s", rest)
			// The client reconnects to another node.
			if err := probe.Run(t.Context(), &there, func(again *probe.Trial) {
				events := again.Stream(id).Rest()
				last := ordered(again, id, events)
				again.Equal("status", last.Status, api.ExecutionStatus("COMPLETED"))
				finals.Add(1)
			}); err != nil {
				p.Fatalf("%v", err)
			}
		})
		p.Equal("terminal events", fmt.Sprint(finals.Load()), fmt.Sprint(clients))
		p.Soon(time.Duration(stopped.Load()), 25*time.Second, "the node stopped after %v", time.Duration(stopped.Load()))
	})
}

func TestAU11ARevokedKeyEndsOnEveryNode(t *testing.T) {
	c := newCrowd(t)
	if c == nil {
		return
	}
	other := node(t, c.dsn, c.authority)
	t.Cleanup(func() { other.Stop(context.Background()) })
	here := c.as(t, "crowd")
	if err := conformseed.Offer(t.Context(), c.pool, here); err != nil {
		t.Fatal(err)
	}
	there := *here
	there.BaseURL = other.URL()
	var id string
	passes(t, here, func(p *probe.Trial) {
		var letGo func()
		id, letGo = waiting(p)
		defer letGo()
		key, revoke, err := here.NewKey(p.Context())
		p.NoError("make a key", err)
		var revoked atomic.Int64
		var streaming sync.WaitGroup
		streaming.Add(2)
		nodes := []*probe.Target{here, &there}
		p.Parallel(3, func(i int) {
			if i == 2 {
				streaming.Wait()
				p.NoError("revoke", revoke(p.Context()))
				revoked.Store(time.Now().UnixNano())
				return
			}
			p.NoError("node", probe.Run(p.Context(), nodes[i], func(n *probe.Trial) { untilRevoked(n, key, id, &streaming, &revoked) }))
		})
	})
}

// untilRevoked keeps a stream open and sends requests until the key is revoked, and for another
// second after the first rejected request.
func untilRevoked(t *probe.Trial, key probe.Credentials, id string, streaming *sync.WaitGroup, revoked *atomic.Int64) {
	signed := probe.Signing{As: &key}
	stream := t.StreamOf(probe.Request{Path: probe.Execution(id) + "/stream", Sign: signed})
	_, ok := stream.Next()
	streaming.Done()
	t.Check(ok, "the stream ended before the revocation")
	since := func() time.Duration { return time.Since(time.Unix(0, revoked.Load())) }
	for refused := 0; refused < 100; {
		asked := revoked.Load() != 0 && since() > t.Limit(time.Second)
		answer := t.Do(probe.Request{Path: probe.Execution(id), Sign: signed})
		t.Check(answer.Status == http.StatusUnauthorized || !asked, "%d more than a second after the revocation", answer.Status)
		if answer.Status == http.StatusUnauthorized {
			refused++
		}
	}
	stream.Rest()
	t.Soon(since(), 5*time.Second, "the stream ended %v after the revocation", since())
}
