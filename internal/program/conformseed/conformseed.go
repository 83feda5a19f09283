// Package conformseed creates the server-side data that the conformance cases need: workspaces, keys,
// members and credits.
//
// It writes to the database, like the operator's commands. Invariant: The package changes only the
// workspaces that it created and the target's workspace. In the target's workspace it creates only
// keys and members.
package conformseed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// seeder creates data for one deployment.
type seeder struct {
	pool    *pgxpool.Pool
	baseURL string
	atEnd   func(remove func(context.Context) error)
}

// Offer creates the server-side data for the target. The target's credentials must be set. The data
// are an owner if the workspace has none, a viewer, a second workspace, and a workspace with few
// credits. It also sets the target's functions that create keys, workspaces and credits. The target's
// End removes all keys and members that were created. The workspaces stay.
func Offer(ctx context.Context, pool *pgxpool.Pool, target *probe.Target) error {
	s := seeder{pool, target.BaseURL, target.AtEnd}
	own, err := uuid.Parse(target.WorkspaceID)
	if err != nil {
		return fmt.Errorf("read the workspace ID of the credentials: %w", err)
	}
	if target.AdminPassword == "" {
		if err := s.join(ctx, &target.Credentials, "owner"); err != nil {
			return err
		}
	}
	viewer := probe.Credentials{BaseURL: s.baseURL, WorkspaceID: target.WorkspaceID}
	if err := s.join(ctx, &viewer, "viewer"); err != nil {
		return err
	}
	foreign, err := s.tenant(ctx, 1_000_000)
	if err != nil {
		return err
	}
	if err := s.join(ctx, &foreign, "owner"); err != nil {
		return err
	}
	poor, err := s.tenant(ctx, 2) // enough for two executions
	if err != nil {
		return err
	}
	// All customers share these members, because hashing a password is slow.
	customers, err := s.tenant(ctx, 0)
	if err != nil {
		return err
	}
	watcher := customers
	if err := errors.Join(s.join(ctx, &watcher, "viewer"), s.join(ctx, &customers, "owner")); err != nil {
		return err
	}
	target.Viewer, target.Foreign, target.Poor = &viewer, &foreign, &poor
	target.NewKey = func(ctx context.Context) (probe.Credentials, func(context.Context) error, error) {
		return s.key(ctx, target.Credentials, own)
	}
	target.NewWorkspace = func(ctx context.Context, terms probe.Terms) (probe.Credentials, error) {
		return s.customer(ctx, customers, terms)
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

// tenant creates a workspace with a key.
func (s seeder) tenant(ctx context.Context, paid int64) (c probe.Credentials, err error) {
	id, err := workspace.Create(ctx, s.pool, workspace.CreateParams{
		Name: "conformance " + uuid.NewString(), Plan: plan.Enterprise, Paid: credit.Credits(paid),
	})
	if err != nil {
		return c, fmt.Errorf("create a workspace: %w", err)
	}
	c, _, err = s.key(ctx, probe.Credentials{BaseURL: s.baseURL, WorkspaceID: id.String()}, id)
	return c, err
}

// join creates a member of the credentials' workspace and stores its login in the credentials. The end
// removes the member.
func (s seeder) join(ctx context.Context, c *probe.Credentials, role string) error {
	c.AdminEmail, c.AdminPassword = role+"-"+strings.ToLower(rand.Text())+"@conformance.example", rand.Text()
	_, err := person.CreateOwner(ctx, s.pool, uuid.MustParse(c.WorkspaceID), person.Account{Email: c.AdminEmail, Name: "Guest", Password: c.AdminPassword})
	if err == nil && role != "owner" {
		_, err = s.pool.Exec(ctx, "UPDATE members SET role = $3 FROM users WHERE users.id = user_id AND email = $1 AND workspace_id = $2", c.AdminEmail, c.WorkspaceID, role)
	}
	if err != nil {
		return fmt.Errorf("create the %s: %w", role, err)
	}
	member := *c
	s.atEnd(func(ctx context.Context) error { return s.leave(ctx, member) })
	return nil
}

// leave removes a member that join created.
func (s seeder) leave(ctx context.Context, c probe.Credentials) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM members USING users WHERE users.id = user_id AND email = $1 AND workspace_id = $2", c.AdminEmail, c.WorkspaceID)
	if err != nil {
		return fmt.Errorf("remove the member %s: %w", c.AdminEmail, err)
	}
	return nil
}

// key creates a key of a workspace, and returns a function that revokes it. The end calls it too.
func (s seeder) key(ctx context.Context, c probe.Credentials, id uuid.UUID) (probe.Credentials, func(context.Context) error, error) {
	keys := auth.NewKeys(s.pool)
	made, err := keys.Create(ctx, auth.CreateParams{WorkspaceID: id, Label: "conformance"})
	if err != nil {
		return c, nil, fmt.Errorf("create a key: %w", err)
	}
	c.APIKey, c.APISecret = made.APIKey, made.APISecret
	revoke := func(ctx context.Context) error {
		_, err := keys.Revoke(ctx, id, made.KeyID)
		return err
	}
	s.atEnd(revoke)
	return c, revoke, nil
}

// customer creates a workspace with the given terms, a key, and the members of an existing
// workspace.
func (s seeder) customer(ctx context.Context, like probe.Credentials, terms probe.Terms) (probe.Credentials, error) {
	id, err := workspace.Create(ctx, s.pool, workspace.CreateParams{
		Name: "conformance " + uuid.NewString(), Plan: plan.Name(terms.Plan), Paid: credit.Credits(int64(terms.Paid)),
	})
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("create a workspace: %w", err)
	}
	if err := s.agree(ctx, id, terms); err != nil {
		return probe.Credentials{}, err
	}
	_, err = s.pool.Exec(ctx, "INSERT INTO members (workspace_id, user_id, role) SELECT $1, user_id, role FROM members WHERE workspace_id = $2", id, like.WorkspaceID)
	if err != nil {
		return probe.Credentials{}, fmt.Errorf("add members: %w", err)
	}
	s.atEnd(func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, "DELETE FROM members WHERE workspace_id = $1", id)
		return err
	})
	like.WorkspaceID = id.String()
	like, _, err = s.key(ctx, like, id)
	return like, err
}

// agree applies those terms that differ from the plan.
func (s seeder) agree(ctx context.Context, id uuid.UUID, terms probe.Terms) error {
	var books billing.Books
	if !terms.Then.IsZero() {
		books.Now = func() time.Time { return terms.Then }
	}
	if terms.RPS != nil || terms.RPH != nil || terms.Waits != nil || terms.Credits != nil || terms.UsageLimit != nil || terms.Storage != nil {
		err := books.SetPlan(ctx, s.pool, billing.Plan{
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
	if err := books.Renew(ctx, s.pool, id); err != nil {
		return fmt.Errorf("spend credits: %w", err)
	}
	return postgres.InTx(ctx, s.pool, nil, func(tx *postgres.Tx) error {
		if err := books.ReserveTx(ctx, tx, billing.Want{WorkspaceID: id, Amount: price}); err != nil {
			return fmt.Errorf("spend credits: %w", err)
		}
		spent := uuid.Must(uuid7.New())
		clear(spent[:6]) // an ID of 1970: audits ignore executions whose week was dropped
		books.QueueSettle(tx.AtCommit(), []billing.Charge{{WorkspaceID: id, ExecutionID: spent, Amount: price, Reserved: price}})
		return nil
	})
}

func amount(credits *int) *credit.Amount {
	if credits == nil {
		return nil
	}
	return new(credit.Credits(int64(*credits)))
}
