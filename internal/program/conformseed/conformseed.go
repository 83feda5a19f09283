// Package conformseed creates what the conformance cases need on the server's side: workspaces,
// keys, people and credits.
//
// It works on the database, like the operator's commands. The one invariant: it changes only the
// workspaces that it created and that of the target, where it creates only keys and members.
package conformseed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// house is where guests come to.
type house struct {
	pool    *pgxpool.Pool
	baseURL string
}

// Offer gives the target, whose credentials are set, all that comes from the server's
// side: an owner if it has none, a viewer, a second workspace and a poor one, and the ways
// to make keys, workspaces and credits.
func Offer(ctx context.Context, pool *pgxpool.Pool, target *probe.Target) error {
	h := house{pool, target.BaseURL}
	own, err := uuid.Parse(target.WorkspaceID)
	if err != nil {
		return fmt.Errorf("the credentials name no workspace: %w", err)
	}
	if target.AdminPassword == "" {
		if err := h.join(ctx, &target.Credentials, "owner"); err != nil {
			return err
		}
	}
	viewer := probe.Credentials{BaseURL: h.baseURL, WorkspaceID: target.WorkspaceID}
	if err := h.join(ctx, &viewer, "viewer"); err != nil {
		return err
	}
	foreign, err := h.tenant(ctx, 1_000_000)
	if err != nil {
		return err
	}
	if err := h.join(ctx, &foreign, "owner"); err != nil {
		return err
	}
	poor, err := h.tenant(ctx, 2) // it can pay for two executions
	if err != nil {
		return err
	}
	// One pair of people for all of them: a password takes long to hash.
	customers, err := h.tenant(ctx, 0)
	if err != nil {
		return err
	}
	watcher := customers
	if err := errors.Join(h.join(ctx, &watcher, "viewer"), h.join(ctx, &customers, "owner")); err != nil {
		return err
	}
	target.Viewer, target.Foreign, target.Poor = &viewer, &foreign, &poor
	target.NewKey = func(ctx context.Context) (probe.Credentials, func(context.Context) error, error) {
		return h.key(ctx, target.Credentials, own)
	}
	target.NewWorkspace = func(ctx context.Context, terms probe.Terms) (probe.Credentials, error) {
		return h.customer(ctx, customers, terms)
	}
	target.Grant = func(ctx context.Context, workspaceID string, credits int) error {
		id, err := uuid.Parse(workspaceID)
		if err != nil {
			return fmt.Errorf("grant credits to %q: %w", workspaceID, err)
		}
		_, err = billing.Books{}.Grant(ctx, pool, billing.Grant{WorkspaceID: id, Amount: credit.Credits(int64(credits)), Reference: uuid.NewString()})
		return err
	}
	return nil
}

// tenant makes a workspace with a key.
func (h house) tenant(ctx context.Context, paid int64) (c probe.Credentials, err error) {
	id, err := workspace.Create(ctx, h.pool, workspace.CreateParams{
		Name: "conformance " + uuid.NewString(), Plan: plan.Enterprise, Paid: credit.Credits(paid),
	})
	if err != nil {
		return c, fmt.Errorf("make a workspace: %w", err)
	}
	c, _, err = h.key(ctx, probe.Credentials{BaseURL: h.baseURL, WorkspaceID: id.String()}, id)
	return c, err
}

// join makes somebody a member of the workspace of the credentials, which are theirs then.
func (h house) join(ctx context.Context, c *probe.Credentials, role string) error {
	c.AdminEmail, c.AdminPassword = role+"-"+strings.ToLower(rand.Text())+"@conformance.example", rand.Text()
	_, err := person.CreateOwner(ctx, h.pool, uuid.MustParse(c.WorkspaceID), person.Account{Email: c.AdminEmail, Name: "Guest", Password: c.AdminPassword})
	if err == nil && role != "owner" {
		_, err = h.pool.Exec(ctx, "UPDATE members SET role = $3 FROM users WHERE users.id = user_id AND email = $1 AND workspace_id = $2", c.AdminEmail, c.WorkspaceID, role)
	}
	if err != nil {
		return fmt.Errorf("make the %s: %w", role, err)
	}
	return nil
}

// key makes a key of a workspace, and says how to revoke it.
func (h house) key(ctx context.Context, c probe.Credentials, id uuid.UUID) (probe.Credentials, func(context.Context) error, error) {
	keys := auth.NewKeys(h.pool)
	made, err := keys.Create(ctx, auth.CreateParams{WorkspaceID: id, Label: "conformance"})
	if err != nil {
		return c, nil, fmt.Errorf("make a key: %w", err)
	}
	c.APIKey, c.APISecret = made.APIKey, made.APISecret
	return c, func(ctx context.Context) error {
		_, err := keys.Revoke(ctx, id, made.KeyID)
		return err
	}, nil
}

// customer makes a workspace on terms, with a key, and with the members of another.
func (h house) customer(ctx context.Context, like probe.Credentials, terms probe.Terms) (probe.Credentials, error) {
	id, err := workspace.Create(ctx, h.pool, workspace.CreateParams{
		Name: "conformance " + uuid.NewString(), Plan: plan.Name(terms.Plan), Paid: credit.Credits(int64(terms.Paid)),
	})
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("make a workspace: %w", err)
	}
	if err := h.agree(ctx, id, terms); err != nil {
		return probe.Credentials{}, err
	}
	_, err = h.pool.Exec(ctx, "INSERT INTO members (workspace_id, user_id, role) SELECT $1, user_id, role FROM members WHERE workspace_id = $2", id, like.WorkspaceID)
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("make members: %w", err)
	}
	like.WorkspaceID = id.String()
	like, _, err = h.key(ctx, like, id)
	return like, err
}

// agree sets what the terms say beyond the plan.
func (h house) agree(ctx context.Context, id uuid.UUID, terms probe.Terms) error {
	var books billing.Books
	if !terms.Then.IsZero() {
		books.Now = func() time.Time { return terms.Then }
	}
	if terms.RPS != nil || terms.RPH != nil || terms.Waits != nil || terms.Credits != nil || terms.UsageLimit != nil || terms.Storage != nil {
		err := books.SetPlan(ctx, h.pool, billing.Plan{
			WorkspaceID: id, Name: plan.Name(terms.Plan), RPS: terms.RPS, RPH: terms.RPH, Waits: terms.Waits,
			Credits: amount(terms.Credits), UsageLimit: amount(terms.UsageLimit), Storage: terms.Storage,
		})
		if err != nil {
			return err
		}
	}
	if terms.Spent == 0 {
		return nil
	}
	price := credit.Credits(int64(terms.Spent))
	return pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error {
		refusals, _, err := books.DecideTx(ctx, tx, []billing.Want{{WorkspaceID: id, Amount: price}})
		if err = errors.Join(append(refusals, err)...); err != nil {
			return fmt.Errorf("spend: %w", err)
		}
		spent := uuid.Must(uuid.NewV7())
		clear(spent[:6]) // of 1970: audits do not look for executions whose week was dropped
		_, err = books.SettleTx(ctx, tx, []billing.Charge{{WorkspaceID: id, ExecutionID: spent, Amount: price, Reserved: price}})
		return err
	})
}

func amount(credits *int) *credit.Amount {
	if credits == nil {
		return nil
	}
	return new(credit.Credits(int64(*credits)))
}
