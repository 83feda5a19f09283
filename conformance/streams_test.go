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
	"github.com/weft-automation/weft/internal/app"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/postgres/pgtest"
)

// crowd is a service of its own, for tests that look at what it costs.
type crowd struct {
	dsn       string
	authority *probe.Authority
	pool      *pgxpool.Pool
	node      *app.App
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	authority, err := probe.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{dsn: pgtest.DSN(t), authority: authority}
	c.node = node(t, c.dsn, authority)
	t.Cleanup(func() { c.node.Stop(context.Background()) })
	if c.pool, err = postgres.Open(t.Context(), c.dsn, "conformance", 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	return c
}

// as is the service seen by a workspace of its own.
func (c *crowd) as(t *testing.T, name string) *probe.Target {
	t.Helper()
	credentials, _ := makeKey(t, t.Context(), c.pool, c.node.URL(), makeWorkspace(t, t.Context(), c.pool, name))
	target, err := probe.NewTarget(credentials)
	if err != nil {
		t.Fatal(err)
	}
	target.Near, target.Authority = true, c.authority
	return target
}

// open opens a stream on a bare connection, so that a client costs next to
// nothing, and reads its header and the first event.
func open(t *probe.Trial, id string) (net.Conn, *bufio.Reader) {
	conn := t.Dial()
	t.NoError("deadline", conn.SetDeadline(time.Now().Add(time.Minute)))
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

// waiting is an execution that runs until letGo.
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

func TestSS06IdleStreamsCostLittle(t *testing.T) {
	c := newCrowd(t)
	count := 300
	if soak() {
		count = 1000
	}
	passes(t, c.as(t, "crowd"), func(p *probe.Trial) {
		id, _ := waiting(p)
		// As many at once as ever below: the pools are as large as they get.
		p.Parallel(16, func(int) { open(p, id); open(p, id) })
		connections, memory := c.connections(t), resident(t)
		readers := make([]*bufio.Reader, count)
		p.Parallel(16, func(i int) {
			for ; i < count; i += 16 {
				_, readers[i] = open(p, id)
			}
		})
		p.Check(resident(t)-memory <= 64<<20, "%d streams take %d MiB", count, (resident(t)-memory)>>20)
		p.Check(c.connections(t) <= connections, "%d connections to the database, %d before", c.connections(t), connections)
		if !soak() {
			return
		}
		began, spent := time.Now(), processor(t)
		for _, reader := range readers {
			line, err := reader.ReadString(':')
			p.Check(err == nil, "no ping: %q %v", line, err)
		}
		took := time.Since(began)
		p.Check(took < 17*time.Second, "the last ping came after %v", took)
		p.Check(processor(t)-spent < took/10, "%v of a processor in %v", processor(t)-spent, took)
	})
}

// connections counts the service's connections to its database.
func (c *crowd) connections(t *testing.T) (n int) {
	t.Helper()
	if err := c.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name NOT LIKE '%conformance%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// resident is the memory of this process, the service's and the clients'.
func resident(t *testing.T) int {
	t.Helper()
	runtime.GC()
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

// processor is the time that this process has computed.
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
	rounds := 600
	if soak() {
		rounds = 20_000
	}
	passes(t, c.as(t, "crowd"), func(p *probe.Trial) {
		id, _ := waiting(p)
		conn, _ := open(p, id)
		conn.Close()
		before := runtime.NumGoroutine()
		p.Parallel(8, func(int) {
			for range rounds / 8 {
				conn, _ := open(p, id)
				conn.Close()
			}
		})
		p.Until("the goroutines are back to what they were", 15*time.Second, func() bool {
			return runtime.NumGoroutine() <= before+10
		})
	})
}

func TestSS08AStoppingNodeHandsItsStreamsOver(t *testing.T) {
	c := newCrowd(t)
	other := node(t, c.dsn, c.authority)
	t.Cleanup(func() { other.Stop(context.Background()) })
	here := c.as(t, "crowd")
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
				p.Check(time.Since(start) < 10*time.Second, "the streams ended after %v", time.Since(start))
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
			// The client comes again, elsewhere.
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
		p.Check(time.Duration(stopped.Load()) < 25*time.Second, "the node stopped after %v", time.Duration(stopped.Load()))
	})
}
