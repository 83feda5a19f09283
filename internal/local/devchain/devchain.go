//go:build linux

// Package devchain runs the private EVM chain of `weft dev --chain`: it finds anvil, keeps the
// chain in a folder between starts, mines its blocks and stops it.
//
// Package devchain does not depend on components and workflows. The chain's keys are public,
// because the chain is only for trying things out. Invariant: At most one node serves a folder. The
// node listens on loopback only, and never outlives the process that started it, even if that
// process is killed.
package devchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

const host = "127.0.0.1"

// anyPort lets the kernel choose a port.
const anyPort = "0"

// Config holds the settings of a chain.
type Config struct {
	// Dir is the chain's folder. Start creates it if necessary.
	Dir string
	// Log receives warnings and slow steps; nil discards them.
	Log *slog.Logger

	search *search // tests replace the search for anvil
}

// Chain is a running chain. It stops with the process that started it.
type Chain struct {
	home   *folder
	addr   string
	proc   *sidecar.Process
	log    *slog.Logger
	cancel context.CancelFunc // stops the mining
	mining sync.WaitGroup
}

// Start starts the chain in cfg.Dir and returns once it responds. The chain continues from its last
// state, on its last port if that port is free.
//
// The caller must stop the chain. Errors are meant for the user: they say that anvil is missing or
// that the folder is in use, or contain the last lines of the node's log.
func Start(ctx context.Context, cfg Config) (*Chain, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.search == nil {
		cfg.search = machine(cfg.Log)
	}
	program, err := cfg.search.find(ctx)
	if err != nil {
		return nil, err
	}
	home, err := openFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	chain := &Chain{home: home, log: cfg.Log}
	if err := chain.start(ctx, program); err != nil {
		return nil, errors.Join(err, sidecar.Unlock(home.lock))
	}
	return chain, nil
}

// start starts a chain that mines, in a locked folder.
func (c *Chain) start(ctx context.Context, program string) (err error) {
	patience, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	if err := sidecar.AwaitNone(patience, c.home.dir); err != nil { // a previous node still writes its state
		return err
	}
	if err := c.home.adopt(c.log); err != nil {
		return err
	}
	port := c.home.port()
	c.proc, c.addr, err = c.home.launch(patience, program, port)
	if err != nil && port != anyPort && ctx.Err() == nil { // the port may be in use by now
		c.proc, c.addr, err = c.home.launch(patience, program, anyPort)
	}
	if err != nil {
		return err
	}
	err = c.home.storePort(c.addr)
	if err == nil {
		err = c.ask(patience, nil, "anvil_setLoggingEnabled", "[false]") // otherwise anvil would log every request
	}
	if err != nil {
		c.proc.Stop(patience, syscall.SIGTERM, syscall.SIGKILL)
		return err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.mining.Go(func() { c.mine(background) })
	return nil
}

// Addr returns the address of the chain, host:port.
func (c *Chain) Addr() string { return c.addr }

// URL returns the JSON-RPC URL of the chain.
func (c *Chain) URL() string { return "http://" + c.addr }

// Done returns a channel that is closed once the node has exited.
func (c *Chain) Done() <-chan struct{} { return c.proc.Done() }

// Stop stops the node, which first writes its state. If ctx is done before the node has exited,
// Stop kills the node, and the next start uses the state written last.
func (c *Chain) Stop(ctx context.Context) error {
	c.cancel()
	c.mining.Wait()
	c.proc.Stop(ctx, syscall.SIGTERM, syscall.SIGKILL)
	return sidecar.Unlock(c.home.lock)
}

// folder is a chain's folder, locked by this process.
type folder struct {
	dir  string // real path
	lock *os.File
}

func (f *folder) state() string    { return filepath.Join(f.dir, "state.json") }
func (f *folder) dumped() string   { return filepath.Join(f.dir, "dumped.json") }
func (f *folder) log() string      { return filepath.Join(f.dir, "node.log") }
func (f *folder) portFile() string { return filepath.Join(f.dir, "port") }

func openFolder(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("create the chain's folder: %w", err)
	}
	lock, err := sidecar.Lock(dir)
	if err != nil {
		return nil, err
	}
	return &folder{dir: dir, lock: lock}, nil
}

// adopt makes the state that the last node wrote the current state, unless the node was killed
// during the write: anvil overwrites the file in place.
func (f *folder) adopt(log *slog.Logger) error {
	text, err := os.ReadFile(f.dumped())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the chain's state: %w", err)
	case !json.Valid(text):
		log.Warn("the chain's last state is incomplete; the chain continues from the previous one", "folder", f.dir)
		err = os.Remove(f.dumped())
	default:
		err = os.Rename(f.dumped(), f.state())
	}
	if err != nil {
		return fmt.Errorf("replace the chain's state: %w", err)
	}
	return nil
}

// port returns the chain's last port.
func (f *folder) port() string {
	text, err := os.ReadFile(f.portFile())
	if port := strings.TrimSpace(string(text)); err == nil && port != "" {
		return port
	}
	return anyPort
}

func (f *folder) storePort(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		err = os.WriteFile(f.portFile(), []byte(port+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("store the chain's port: %w", err)
	}
	return nil
}

// launch starts a node and returns its address once it listens.
func (f *folder) launch(ctx context.Context, program, port string) (*sidecar.Process, string, error) {
	out, err := os.OpenFile(f.log(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("open the chain's log: %w", err)
	}
	defer out.Close()
	args := []string{"--host", host, "--port", port, "--no-mining", "--dump-state", f.dumped()}
	if _, err := os.Stat(f.state()); err == nil {
		args = append(args, "--load-state", f.state())
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, out, out
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + f.dir}
	proc, err := sidecar.Launch(cmd, syscall.SIGTERM) // on SIGTERM it writes its state
	if err != nil {
		return nil, "", err
	}
	addr, err := f.awaitListening(ctx, proc)
	if err != nil {
		proc.Stop(ctx, syscall.SIGKILL, syscall.SIGKILL)
		return nil, "", err
	}
	return proc, addr, nil
}

// awaitListening reads the node's address from its log, which is the only proof that this node, and
// not a different program, listens there.
func (f *folder) awaitListening(ctx context.Context, proc *sidecar.Process) (string, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(f.log())
		if err != nil {
			return "", fmt.Errorf("read the chain's log: %w", err)
		}
		if _, after, ok := strings.Cut(string(text), "Listening on "); ok {
			if addr, _, whole := strings.Cut(after, "\n"); whole {
				return strings.TrimSpace(addr), nil
			}
		}
		select {
		case <-tick.C:
		case <-proc.Done():
			return "", fmt.Errorf("the chain did not start; delete %s to start with a new chain. The end of %s:\n%s", f.state(), f.log(), f.logTail())
		case <-ctx.Done():
			return "", fmt.Errorf("the chain did not become ready: %w", ctx.Err())
		}
	}
}

// logTail returns the end of the node's log.
func (f *folder) logTail() string {
	text, err := os.ReadFile(f.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
