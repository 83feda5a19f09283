package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/workflow"
)

// keysCommand works on the database: anyone who can reach it can create keys.
type keysCommand struct {
	Create keysCreate `cmd:"" help:"Create a key and print it. The key is not shown again."`
	List   keysList   `cmd:"" help:"List the keys of a workspace."`
	Rotate keysRotate `cmd:"" help:"Create the successor of a key and print it. It is not shown again."`
	Revoke keysRevoke `cmd:"" help:"Revoke a key permanently."`

	RotateMaster keysRotateMaster `cmd:"" name:"rotate-master" help:"Re-encrypt stored secrets with the current master key."`
}

// inWorkspace selects the database and the workspace of the keys.
type inWorkspace struct {
	database
	Workspace string `default:"dev" placeholder:"NAME" help:"Name or ID of the workspace (${default})."`
}

// issued has the flags for the credentials of a new key.
type issued struct {
	inWorkspace
	BaseURL string `name:"base-url" placeholder:"URL" default:"${base_url}" help:"Base URL of the service, for the credentials."`
	Out     string `placeholder:"FILE" help:"Write the credentials to a new file with mode 0600, instead of stdout."`
}

// issue writes the credentials of the key that create creates in the workspace. It revokes a key whose
// credentials can't be written.
func (k *issued) issue(s *session, keys *auth.Keys, create func() (uuid.UUID, auth.Created, error)) (err error) {
	write := func(text []byte) error {
		return s.print(text, func(out io.Writer) error { return printJSON(out, text) })
	}
	if k.Out != "" {
		// Before the key is created, because a key that cannot be written is lost.
		file, err := os.OpenFile(k.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("write the credentials: %w (no key was created)", err)
		}
		made := false
		write = func(text []byte) error {
			err := errors.Join(printJSON(file, text), file.Close())
			made = err == nil
			return err
		}
		defer func() {
			if !made {
				_, _ = file.Close(), os.Remove(k.Out)
			}
		}()
	}
	workspaceID, created, err := create()
	if err != nil {
		return k.explain(err)
	}
	text, err := strictjson.Encode(client.Credentials{ //nolint:gosec // the purpose of the command is to show the secret once
		BaseURL: k.baseURL(s), WorkspaceID: workspaceID, APIKey: created.APIKey, APISecret: created.APISecret,
	})
	if err == nil {
		err = write(text)
	}
	if err != nil {
		return revokeUndelivered(s.ctx, keys, workspaceID, created.KeyID, err)
	}
	s.note("Key %s of workspace %s. The secret is not shown again.", created.KeyID, k.Workspace)
	if old := created.Replaces; old != nil {
		s.note("The old key works until %s.", old.EndsAt.UTC().Format(time.DateTime))
	}
	return nil
}

type keysCreate struct {
	issued
	Label        string   `default:"weft keys create" placeholder:"TEXT" help:"Label of the key (${default})."`
	Workflows    []string `name:"workflow" placeholder:"KEY" help:"Restrict the key to this workflow, by its key or ID; may be repeated."`
	NewWorkspace bool     `help:"Create the workspace if it does not exist."`
	Plan         string   `default:"starter" enum:"starter,growth,professional,enterprise" help:"Plan of a new workspace (${default})."`
}

func (k *keysCreate) Run(s *session, pool *pgxpool.Pool) error {
	keys := auth.NewKeys(pool)
	return k.issue(s, keys, func() (id uuid.UUID, created auth.Created, err error) {
		id, err = findWorkspace(s.ctx, pool, k.Workspace)
		if errors.Is(err, noWorkspace(k.Workspace)) && k.NewWorkspace {
			if len(k.Workflows) > 0 {
				return id, created, errors.New("--workflow: a new workspace has no workflows")
			}
			id, err = workspace.Create(s.ctx, pool, workspace.CreateParams{Name: k.Workspace, Plan: plan.Name(k.Plan)})
			if err == nil && plan.Name(k.Plan).Terms().Monthly == 0 {
				s.note("The new workspace has no credits yet. To grant credits: weft admin credits %s AMOUNT.", k.Workspace)
			}
		}
		allowed := make([]uuid.UUID, len(k.Workflows))
		for i, name := range k.Workflows {
			if err == nil {
				allowed[i], err = workflow.NewService(pool, nil, nil).Find(s.ctx, id, name)
			}
		}
		if err == nil {
			created, err = keys.Create(s.ctx, auth.CreateParams{WorkspaceID: id, Label: k.Label, AllowedWorkflowIDs: allowed})
		}
		return id, created, err
	})
}

type keysRotate struct {
	issued
	oneKey
	Overlap time.Duration `default:"24h" placeholder:"DURATION" help:"How long the old key keeps working, up to 7d (${default})."`
}

// maxOverlap is the longest overlap that the API accepts.
const maxOverlap = 7 * 24 * time.Hour

// Validate rejects an overlap that the API would reject.
func (k *keysRotate) Validate() error {
	if k.Overlap < 0 || k.Overlap > maxOverlap {
		return fmt.Errorf("--overlap must be from 0s to 7d, got %v", k.Overlap)
	}
	return nil
}

func (k *keysRotate) Run(s *session, pool *pgxpool.Pool) error {
	keys := auth.NewKeys(pool)
	return k.issue(s, keys, func() (id uuid.UUID, created auth.Created, err error) {
		if id, err = findWorkspace(s.ctx, pool, k.Workspace); err == nil {
			created, err = keys.Rotate(s.ctx, auth.RotateParams{WorkspaceID: id, KeyID: k.KeyID.UUID, Overlap: k.Overlap})
		}
		return id, created, err
	})
}

// revokeTimeout limits the revocation of a key that was not delivered.
const revokeTimeout = 5 * time.Second

// revokeUndelivered revokes a key whose credentials could not be written because of cause. It works
// even if ctx was canceled.
func revokeUndelivered(ctx context.Context, keys *auth.Keys, workspaceID, id uuid.UUID, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if _, err := keys.Revoke(ctx, workspaceID, id); err != nil {
		return fmt.Errorf("write the credentials: %w; revoke the undelivered key %s: %w", cause, id, err)
	}
	return fmt.Errorf("write the credentials: %w (the key is revoked)", cause)
}

// baseURL returns the base URL of the flag, else of weft dev's service, else the default of serve.
func (k *issued) baseURL(s *session) string {
	if k.BaseURL != "" {
		return k.BaseURL
	}
	if dev, err := client.ReadCredentials(filepath.Join(k.DataDir, app.CredentialsFile)); err == nil {
		return dev.BaseURL
	}
	const assumed = "http://127.0.0.1:8080"
	s.note("The credentials contain the base URL %s. To set another base URL, use --base-url.", assumed)
	return assumed
}

// explain adds how to select a workspace if it was not found.
func (w inWorkspace) explain(err error) error {
	if errors.Is(err, noWorkspace(w.Workspace)) {
		return fmt.Errorf("%w: choose one with --workspace (keys create --new-workspace creates it)", err)
	}
	return err
}

type keysList struct {
	inWorkspace
}

func (k *keysList) Run(s *session, pool *pgxpool.Pool) error {
	workspaceID, err := findWorkspace(s.ctx, pool, k.Workspace)
	if err != nil {
		return k.explain(err)
	}
	keys, err := auth.NewKeys(pool).List(s.ctx, workspaceID)
	if err != nil {
		return err
	}
	listed := make([]listedKey, len(keys))
	for i, key := range keys {
		listed[i] = listedKey{key, stateOf(key)}
	}
	return s.printAll(listed, view{
		columns: "LABEL=label KEY=hint STATE=state CREATED=createdAt REVOKED=revokedAt|- EXPIRES=expiresAt|- WORKFLOWS=allowedWorkflowIds|all ID=id",
		empty:   "No keys. Create one: weft keys create --workspace " + k.Workspace,
	})
}

// listedKey is a key with its state, which the API leaves to the caller.
type listedKey struct {
	api.APIKey
	State string `json:"state"`
}

// stateOf returns whether a key is active, revoked or expired.
func stateOf(key api.APIKey) string {
	switch {
	case key.RevokedAt != nil:
		return "revoked"
	case key.ExpiresAt != nil && !key.ExpiresAt.Std().After(time.Now()):
		return "expired"
	}
	return "active"
}

func date(at timestamp.Time) string { return at.Std().UTC().Format(time.DateTime) }

// oneKey is the argument of commands on one key.
type oneKey struct {
	KeyID keyID `arg:"" name:"key-id" help:"ID of the key: the column ID of weft keys list."`
}

type keysRevoke struct {
	inWorkspace
	oneKey
}

// keyID is the ID of a key, which is not the key itself.
type keyID struct{ uuid.UUID }

// UnmarshalText omits the text from its error, because it may be the key itself.
func (id *keyID) UnmarshalText(text []byte) (err error) {
	if id.UUID, err = uuid.ParseBytes(text); err != nil {
		return errors.New("the value is not a key ID; see the ID column of `weft keys list`")
	}
	return nil
}

func (k *keysRevoke) Run(s *session, pool *pgxpool.Pool) error {
	workspaceID, err := findWorkspace(s.ctx, pool, k.Workspace)
	if err != nil {
		return k.explain(err)
	}
	keys := auth.NewKeys(pool)
	known, err := keys.List(s.ctx, workspaceID)
	if err != nil {
		return err
	}
	for _, key := range known {
		if key.ID == k.KeyID.UUID && key.RevokedAt != nil {
			s.note("Key %s was already revoked, at %s.", k.KeyID, date(*key.RevokedAt))
			return nil
		}
	}
	if _, err := keys.Revoke(s.ctx, workspaceID, k.KeyID.UUID); err != nil {
		return err
	}
	s.note("Key %s is revoked. All servers reject the key within 1 s, and close its streams within 5 s.", k.KeyID)
	return nil
}
