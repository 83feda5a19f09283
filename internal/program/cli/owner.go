package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
)

// passwordVariable holds the password for non-interactive use.
const passwordVariable = "WEFT_ADMIN_PASSWORD"

// adminOwner reads the password from the environment or prompts for it, because other users can see
// arguments.
type adminOwner struct {
	database
	Workspace    string `arg:"" help:"Name or ID of the workspace."`
	Email        string `arg:"" help:"E-mail address to sign in with."`
	Name         string `placeholder:"TEXT" help:"Name of the person (the e-mail address)."`
	NewWorkspace bool   `help:"Create the workspace if it does not exist."`
	Existing     bool   `help:"Use the existing account of the address. Without this flag an address that has an account is rejected. An account that was never verified gets a new password."`
	OnPlan       string `name:"plan" default:"starter" enum:"starter,growth,professional,enterprise" help:"Plan of a new workspace (${default})."`
}

// Run creates the owner.
func (c *adminOwner) Run(s *session, pool *pgxpool.Pool) error {
	id, err := findWorkspace(s.ctx, pool, c.Workspace)
	missing := errors.Is(err, noWorkspace(c.Workspace)) && c.NewWorkspace
	if errors.Is(err, noWorkspace(c.Workspace)) && !missing {
		return fmt.Errorf("%w. Add --new-workspace to create it", err)
	}
	if err != nil && !missing {
		return err
	}
	exists, verified, err := person.HasAccount(s.ctx, pool, c.Email)
	switch {
	case err != nil:
		return err
	case exists && !c.Existing && !verified:
		return fmt.Errorf("%s has an account already. Add --existing to make this account an owner of the workspace. Its address is not verified, so it needs a new password", c.Email)
	case exists && !c.Existing:
		return fmt.Errorf("%s has an account already. Add --existing to make this account an owner of the workspace", c.Email)
	case !exists && c.Existing:
		return fmt.Errorf("%s has no account. Leave out --existing to create one", c.Email)
	}
	var password string // empty for a verified account, which keeps its password
	if !verified {
		if password, err = readPassword(s); err != nil {
			return err
		}
	}
	if c.Name == "" {
		c.Name = c.Email
	}
	var owner person.Person
	err = pgx.BeginFunc(s.ctx, pool, func(tx pgx.Tx) error { // in one transaction, so that no workspace is without its owner
		if missing {
			if id, err = workspace.Create(s.ctx, tx, workspace.CreateParams{Name: c.Workspace, Plan: plan.Name(c.OnPlan)}); err != nil {
				return err
			}
		}
		owner, err = person.CreateOwner(s.ctx, tx, id, person.Account{Email: c.Email, Name: c.Name, Password: password, Existing: c.Existing})
		return err
	})
	if err != nil {
		return err
	}
	s.note("%s is an owner of the workspace %s, and signs in at /settings.", owner.Email, c.Workspace)
	switch {
	case verified:
		s.note("The account keeps its password. To set a new password, run weft admin password %s.", owner.Email)
	case exists:
		s.note("The address of this account was not verified before. Now the address is verified, the account has the new password, and all its sessions have ended.")
	}
	return nil
}

// adminPassword sets a forgotten password. Nothing else of the user changes.
type adminPassword struct {
	database
	Email    string `arg:"" help:"E-mail address of the person."`
	Verified bool   `help:"Also record that the person who gets the password owns the address. The account may then join several workspaces."`
}

// Run sets the password.
func (c *adminPassword) Run(s *session, pool *pgxpool.Pool) error {
	password, err := readPassword(s)
	if err != nil {
		return err
	}
	of, err := person.SetPassword(s.ctx, pool, c.Email, password, c.Verified)
	if err != nil {
		return err
	}
	s.note("%s has a new password. All sessions of this person have ended.", of.Email)
	if c.Verified {
		s.note("The address is verified now.")
	}
	return nil
}

// readPassword reads the password from the environment, or else from a line of the input. On a
// terminal the password is not echoed, and must be typed twice.
func readPassword(s *session) (string, error) {
	if password := s.getenv(passwordVariable); password != "" {
		return password, nil
	}
	input := bufio.NewReader(s.stdin)
	terminal, err := disableEcho(s.stdin)
	if err != nil {
		return "", fmt.Errorf("%w (set %s instead)", err, passwordVariable)
	}
	if terminal == nil {
		password, err := readLine(s.ctx, input)
		if err == nil && password == "" {
			return "", fmt.Errorf("the password is missing: set %s, or pass it as the first line of standard input", passwordVariable)
		}
		return password, err
	}
	defer stty(terminal, "echo") //nolint:errcheck // fails only if the terminal is gone
	s.note("Password (at least %d characters; it is not shown):", person.MinPassword)
	password, err := readLine(s.ctx, input)
	if err != nil {
		return "", err
	}
	s.note("The same password again:")
	again, err := readLine(s.ctx, input)
	if err != nil {
		return "", err
	}
	if again != password {
		return "", errors.New("the two passwords are not the same; nothing was changed")
	}
	return password, nil
}

// readLine also returns when ctx is done: after Ctrl-C the echo must be restored.
func readLine(ctx context.Context, input *bufio.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := input.ReadString('\n')
		read <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.New("no input; nothing was changed")
	case a := <-read:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", fmt.Errorf("read the line: %w", a.err)
		}
		return strings.TrimRight(a.line, "\r\n"), nil
	}
}

// disableEcho switches off the echo of a terminal and returns its file. It returns nil if the input
// is not a terminal.
func disableEcho(input io.Reader) (*os.File, error) {
	if !terminal(input) {
		return nil, nil
	}
	file := input.(*os.File)
	err := stty(file, "-echo")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("switch off the echo: %w", err)
	}
	if err != nil {
		return nil, nil // a device such as /dev/null
	}
	return file, nil
}

func stty(terminal *os.File, mode string) error {
	command := exec.Command("stty", mode)
	command.Stdin = terminal
	return command.Run()
}
