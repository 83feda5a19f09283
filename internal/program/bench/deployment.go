package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/program/app"
)

// deployment is a running Weft with a key.
type deployment struct {
	api         *process
	worker      *process // nil: the API works
	addr        string   // of the API
	env         []string
	workspaceID uuid.UUID
	signer      *client.Signer
	pool        *pgxpool.Pool // the benchmark's own pool
	commits     float64       // at the last count
}

// singleProcess returns a Weft in a single process, started at the first call.
func (r *rig) singleProcess(ctx context.Context) (*deployment, error) {
	if r.one != nil && r.one.worker == nil {
		return r.one, nil
	}
	r.stopServices()
	const name = "one"
	dsn, err := r.database(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &deployment{}
	if d.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	ops, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.dir, name)
	d.api, err = r.spawn(name, []string{"DATABASE_URL=" + dsn}, asWeft, "dev", "--no-proxy", "--addr", d.addr, "--ops-addr", ops,
		"--data-dir", dir, "--allow-network", "127.0.0.0/8", "--plan", "enterprise")
	if err != nil {
		return nil, err
	}
	if err := d.open(ctx, dsn); err != nil {
		d.stop()
		return nil, err
	}
	credentials, err := client.ReadCredentials(filepath.Join(dir, app.CredentialsFile))
	if err == nil {
		d.workspaceID = credentials.WorkspaceID
		d.signer, err = client.NewSigner(credentials.APIKey, credentials.APISecret)
	}
	if err != nil {
		d.stop()
		return nil, err
	}
	r.one = d
	return d, nil
}

// open waits for the API and opens the benchmark's own pool.
func (d *deployment) open(ctx context.Context, dsn string) (err error) {
	if err := d.api.ready(ctx, "http://"+d.addr+"/readyz"); err != nil {
		return err
	}
	d.pool, err = postgres.Open(ctx, dsn, "bench", postgres.Owner, 4)
	return err
}

// separateProcesses starts a Weft with an API process and a worker process.
func (r *rig) separateProcesses(ctx context.Context) (*deployment, error) {
	r.stopServices()
	d, err := r.startServer(ctx)
	if err != nil {
		return nil, err
	}
	r.one = d
	ops, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if d.worker, err = r.spawn("work", append([]string{"WEFT_OPS_ADDR=" + ops}, d.env...), asWeft, "work"); err != nil {
		return nil, err
	}
	return d, d.worker.ready(ctx, "http://"+ops+"/readyz")
}

func (r *rig) startServer(ctx context.Context) (*deployment, error) {
	dsn, err := r.database(ctx, "apart")
	if err != nil {
		return nil, err
	}
	d := &deployment{}
	if err := d.prepare(ctx, dsn); err != nil {
		return nil, err
	}
	if d.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	ops, err := freeAddr()
	if err != nil {
		return nil, err
	}
	var key [32]byte
	rand.Read(key[:]) //nolint:errcheck // crashes the program instead of failing
	d.env = []string{
		"DATABASE_URL=" + dsn, "WEFT_MASTER_KEY=" + base64.StdEncoding.EncodeToString(key[:]), "WEFT_ALLOW_NETWORKS=127.0.0.0/8",
	}
	d.api, err = r.spawn("serve", append([]string{"WEFT_ADDR=" + d.addr, "WEFT_OPS_ADDR=" + ops, "WEFT_CONNECTIONS_PER_ADDRESS=100000"}, d.env...), asWeft, "serve")
	if err != nil {
		return nil, err
	}
	err = d.open(ctx, dsn)
	if err == nil {
		err = d.warmUp(ctx)
	}
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

// warmUp makes the first request. The service admits a hundred requests a second until it has read
// the limits of a workspace, which takes longer on a busy machine.
func (d *deployment) warmUp(ctx context.Context) error {
	_, err := once(ctx, d.call("GET", "/v1/sdk/limits", ""))
	return err
}

// prepare migrates an empty database and creates a workspace with a key.
func (d *deployment) prepare(ctx context.Context, dsn string) error {
	if err := app.Migrate(ctx, dsn); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, dsn, "bench", postgres.Owner, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if d.workspaceID, err = uuid7.New(); err != nil {
		return err
	}
	_, err = workspace.Create(ctx, pool, workspace.CreateParams{ID: d.workspaceID, Name: "bench", Plan: plan.Enterprise, Paid: credit.Credits(1_000_000)})
	if err != nil {
		return fmt.Errorf("create the workspace: %w", err)
	}
	key, err := auth.NewKeys(pool).Create(ctx, auth.CreateParams{WorkspaceID: d.workspaceID, Label: "weft bench"})
	if err != nil {
		return err
	}
	d.signer, err = client.NewSigner(key.APIKey, key.APISecret)
	return err
}

func (d *deployment) stop() {
	if d == nil {
		return
	}
	d.worker.stop()
	d.api.stop()
	if d.pool != nil {
		d.pool.Close()
	}
}

// call returns a request to this deployment.
func (d *deployment) call(method, target, body string) *call {
	return &call{signer: d.signer, method: method, target: target, host: d.addr, body: []byte(body)}
}

// execute returns a request to execute a component. options are additional JSON fields of the body,
// each with a leading comma.
func (d *deployment) execute(s step, options string) *call {
	return d.call("POST", "/v1/sdk/components", fmt.Sprintf(`{"module":%q,"input":%s,"config":%s%s}`, s.module, s.input, s.config, options))
}

// record holds the fields of an execution record that the benchmark reads.
type record struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// submit submits n executions and returns their IDs.
func (d *deployment) submit(ctx context.Context, n int, request *call) ([]string, error) {
	clients := min(n, 64)
	wires, err := dialAll(ctx, d.addr, clients)
	if err != nil {
		return nil, err
	}
	defer closeAll(wires)
	ids := make([]string, n)
	err = times(ctx, clients, n, func(_ context.Context, client, index int) error {
		answer, err := wires[client].do(request.request())
		if err != nil {
			return err
		}
		var made record
		if err := json.Unmarshal(answer, &made); err != nil {
			return fmt.Errorf("read a record: %w", err)
		}
		ids[index] = strings.Clone(made.ID)
		return nil
	})
	return ids, err
}

// settled waits until every execution is final.
func (d *deployment) settled(ctx context.Context) error {
	return d.until(ctx, "executions to finish", "SELECT NOT EXISTS (SELECT FROM component_executions WHERE finished_at IS NULL)")
}

// until polls the database until the query returns true.
func (d *deployment) until(ctx context.Context, what, question string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, fmt.Errorf("waited too long for %s", what))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		if err := d.pool.QueryRow(ctx, question, args...).Scan(&yes); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if yes {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
