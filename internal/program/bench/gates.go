package bench

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/program/app"
)

// anybody lets everybody in as one workspace's key.
type anybody struct{ principal auth.Principal }

func (anybody) Precheck(http.Header, netip.Addr) error { return nil }

func (a anybody) Verify(context.Context, auth.Request) (auth.Principal, error) {
	return a.principal, nil
}

func (anybody) UntilRevoked(ctx context.Context, _ auth.Principal) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (anybody) Check(context.Context, auth.Claim) (api.SignatureCheck, error) {
	return api.SignatureCheck{}, nil
}

// nothing is a ledger that keeps none: every want is admitted, and no workspace
// ever has anything under way.
type nothing struct{}

func (nothing) ReserveTx(context.Context, pgx.Tx, []billing.Want) (map[uuid.UUID]billing.Load, error) {
	return nil, nil
}

func (nothing) DecideTx(_ context.Context, _ pgx.Tx, wants []billing.Want) ([]error, map[uuid.UUID]billing.Load, error) {
	return make([]error, len(wants)), nil, nil
}

func (nothing) SettleTx(context.Context, pgx.Tx, []billing.Charge) (map[uuid.UUID]billing.Load, error) {
	return nil, nil
}

func (nothing) Renew(context.Context, postgres.DB, ...uuid.UUID) error { return nil }

func (nothing) RenewDue(context.Context, postgres.DB) (int, error) { return 0, nil }

// inside is a Weft, API and workers, within this very process: the one way in
// which a part of it can be replaced, for no setting does that. substitute is
// given its workspace; nil replaces nothing.
func (r *rig) inside(ctx context.Context, name string, substitute func(workspaceID uuid.UUID) *app.Instead) (*deployment, error) {
	dsn, err := r.database(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &deployment{}
	if err := d.prepare(ctx, dsn); err != nil {
		return nil, err
	}
	var key [32]byte
	rand.Read(key[:]) //nolint:errcheck // ends the program rather than fail
	cfg, err := app.ConfigFromEnv([]string{
		"DATABASE_URL=" + dsn, "WEFT_MASTER_KEY=" + base64.StdEncoding.EncodeToString(key[:]), "WEFT_ADDR=127.0.0.1:0", "WEFT_OPS_ADDR=127.0.0.1:0", "WEFT_CONNECTIONS_PER_ADDRESS=100000",
	})
	if err != nil {
		return nil, err
	}
	cfg.Work = true
	if substitute != nil {
		cfg.Instead = substitute(d.workspaceID)
	}
	if d.within, err = app.Start(ctx, cfg, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	d.addr = strings.TrimPrefix(d.within.URL(), "http://")
	if d.pool, err = postgres.Open(ctx, dsn, "bench", postgres.Owner, 4); err != nil {
		d.stop()
	}
	return d, err
}

// gateCost is what authentication, limiter and ledger leave of the rate of
// acceptance.
func (r *rig) gateCost(ctx context.Context) ([]Result, error) {
	r.quiet()
	whole, err := r.inside(ctx, "gated", nil)
	if err != nil {
		return nil, err
	}
	defer whole.stop()
	bare, err := r.inside(ctx, "bare", func(id uuid.UUID) *app.Instead {
		return &app.Instead{Verifier: anybody{auth.Principal{WorkspaceID: id, KeyID: uuid.New()}}, Ledger: nothing{}}
	})
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	floor, ours, err := turns(r.Runs, rateOf(r.submitting(ctx, bare)), rateOf(r.submitting(ctx, whole)))
	if err != nil {
		return nil, err
	}
	return []Result{Figure{
		ID: "P14", Name: "submit without waiting, 64 clients, gates and ledger in place", Unit: "/s", Floor: "without authentication, limiter, ledger",
		Better: Higher, First: 0.60, Goal: 0.80,
	}.result(floor, ours)}, nil
}
