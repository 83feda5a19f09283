package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

const againstRestate = "restate"

// restateMeasurements compare an inline execution with a Restate handler of one durable step. Both
// return a UUID.
var restateMeasurements = []measurement{
	one(Figure{"R1", "durable UUID, 1 client: p50", "ms", "Restate", Lower, 0.35, 0.35}, onRestate(1, sample.p50)),
	one(Figure{"R2", "durable UUID, 64 clients", "/s", "Restate", Higher, 4, 4}, onRestate(64, sample.rate)),
}

func onRestate(clients int, value func(sample) float64) func(*rig, context.Context) ([]series, error) {
	return onSingleProcess(func(r *rig, ctx context.Context, d *deployment) ([]series, error) {
		theirs, err := r.startRestate(ctx)
		if err != nil {
			return nil, err
		}
		defer theirs.stop()
		return r.compare(r.repeatOne(ctx, clients, theirs.call(), theirs.check), r.inlineLoad(ctx, d, clients, noEffect), value)
	})
}

//go:embed restate/package.json restate/package-lock.json
var restatePackages embed.FS

// restateService is the module of Restate's handler, in the repository.
const restateService = "internal/tools/restate"

// restateVersion is that of the server in package.json.
const restateVersion = "1.7.12"

// installRestate returns the path of Restate's server, which npm installs on the first call.
func (r *rig) installRestate(ctx context.Context) (server string, err error) {
	packages, err := fs.Sub(restatePackages, "restate")
	if err != nil {
		return "", err
	}
	edition := sidecar.Edition{Title: "Restate", Version: restateVersion, Folder: "restate-" + restateVersion, Lock: packages}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	server = filepath.Join(edition.Root(sidecar.Cache()), "node_modules", "@restatedev", "restate-server-"+runtime.GOOS+"-"+arch, "bin", "restate-server")
	if _, err := os.Stat(server); err == nil {
		return server, nil
	}
	if err := edition.Fetch(ctx, sidecar.Cache(), slog.New(slog.NewTextHandler(r.Progress, nil))); err != nil {
		return "", fmt.Errorf("install Restate's npm packages: %w", err)
	}
	if _, err := os.Stat(server); err != nil {
		return "", fmt.Errorf("npm has no Restate server for this machine (%s, %s)", runtime.GOOS, runtime.GOARCH)
	}
	return server, nil
}

// restate is a running Restate with its service.
type restate struct {
	server, service *process
	ingress         string // its address
}

// startRestate starts Restate with its default settings, but without telemetry, and registers the
// service. No setting keeps Restate from asking GitHub for its latest release when it starts.
func (r *rig) startRestate(ctx context.Context) (_ *restate, err error) {
	handler := filepath.Join(r.dir, "restate-service")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", restateService, "-buildvcs=false", "-o", handler).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the service of Restate, in the folder of the repository: %w: %s", err, out)
	}
	server, err := r.installRestate(ctx)
	if err != nil {
		return nil, err
	}
	var addrs [4]string // of the service, the ingress, the admin API and between nodes
	for i := range addrs {
		if addrs[i], err = freeAddr(); err != nil {
			return nil, err
		}
	}
	service, ingress, admin, fabric := addrs[0], addrs[1], addrs[2], addrs[3]
	t := &restate{ingress: ingress}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	t.service, err = r.start("restate-service", nil, handler, service)
	if err != nil {
		return nil, err
	}
	t.server, err = r.start("restate", []string{
		"RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn", "RESTATE_NODE_NAME=bench",
		"RESTATE_BASE_DIR=" + filepath.Join(r.dir, fmt.Sprintf("restate-%d", r.spawned)),
		"RESTATE_LISTEN_MODE=tcp", "RESTATE_BIND_IP=127.0.0.1", "RESTATE_ADVERTISED_HOST=127.0.0.1",
		"RESTATE_INGRESS__BIND_PORT=" + port(ingress), "RESTATE_ADMIN__BIND_PORT=" + port(admin), "RESTATE_BIND_PORT=" + port(fabric),
	}, server)
	if err != nil {
		return nil, err
	}
	err = errors.Join(t.service.listening(ctx, service), t.server.ready(ctx, "http://"+admin+"/health"), t.server.ready(ctx, "http://"+ingress+"/restate/health"))
	if err != nil {
		return nil, err
	}
	// Restate asks the service for its handlers.
	register := &call{method: http.MethodPost, target: "/deployments", host: admin, body: fmt.Appendf(nil, `{"uri":"http://%s"}`, service)}
	if _, err = once(ctx, register); err != nil {
		return nil, fmt.Errorf("register the service at Restate: %w", err)
	}
	return t, nil
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // freeAddr returns valid addresses
	return port
}

func (t *restate) stop() {
	t.server.stop()
	t.service.stop()
}

// call returns a request that executes the handler and waits for its result.
func (t *restate) call() *call {
	return &call{method: http.MethodPost, target: "/bench/uuid", host: t.ingress}
}

// check checks that the response is a UUID.
func (t *restate) check(answer []byte) error {
	var id string
	if err := json.Unmarshal(answer, &id); err != nil || len(id) != 36 {
		return fmt.Errorf("Restate did not return a UUID: %s", answer)
	}
	return nil
}
