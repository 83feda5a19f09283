package judges

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/cli"
)

// deployment is a weft dev with a weft proxy in front of it, and a receiver that accepts every
// callback.
type deployment struct {
	own      client.Credentials
	proxy    string // base URL for the tools
	receiver string
}

// start starts a deployment that runs until the test ends.
func start(t *testing.T) deployment {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	dir, dsn := t.TempDir(), pgtest.DSN(t)
	file := filepath.Join(dir, "credentials.json")
	background(t, "dev", "--addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--no-proxy", "--data-dir="+dir, "--database-url="+dsn, "--allow-network=127.0.0.0/8")
	d := deployment{own: ready(t, file), receiver: receiver.URL}
	for line := range background(t, "proxy", "--listen=127.0.0.1:0", "--credentials="+file) {
		if at, ok := strings.CutPrefix(line, "Listening on "); ok {
			d.proxy = at
			return d
		}
	}
	t.Fatal("weft proxy did not start")
	return d
}

// background runs a command of weft until the test ends, and returns its output.
func background(t *testing.T, args ...string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	lines := make(chan string, 1000)
	var both sync.WaitGroup
	both.Go(func() {
		cli.Run(ctx, cli.Process{Program: "weft", Args: args, Stdout: io.Discard, Stderr: writer})
		_ = writer.Close()
	})
	both.Go(func() {
		defer close(lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default: // nothing waits for the output any more
			}
		}
		_, _ = io.Copy(io.Discard, reader)
	})
	t.Cleanup(func() { cancel(); both.Wait() })
	return lines
}

// ready waits until the service of the credentials is ready.
func ready(t *testing.T, file string) client.Credentials {
	t.Helper()
	var c client.Credentials
	waittest.Until(t, "weft dev is ready", func() bool {
		var err error
		if c, err = client.ReadCredentials(file); err != nil {
			return false
		}
		answer, err := http.Get(c.BaseURL + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return c
}

// tool returns the path of a Node tool in internal/tools.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../internal/tools/node_modules/" + name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("run make tools to install it: %w", err))
	}
	return path
}
