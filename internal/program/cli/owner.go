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

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
)

// passwordVariable holds the password where nobody can be asked.
const passwordVariable = "WEFT_ADMIN_PASSWORD"

// adminOwner takes the password from the environment, or asks for it: arguments
// are seen by whoever lists processes.
type adminOwner struct {
	database
	Workspace    string `arg:"" help:"Name or id of the workspace."`
	Email        string `arg:"" help:"E-mail address to sign in with."`
	Name         string `placeholder:"TEXT" help:"What the person is called (the e-mail address)."`
	NewWorkspace bool   `help:"Create the workspace if it does not exist."`
	Existing     bool   `help:"Use the existing account of the address. Without this flag an address that has an account is rejected. An account that was never verified gets a new password."`
	OnPlan       string `name:"plan" default:"starter" enum:"starter,growth,professional,enterprise" help:"Plan of a new workspace (${default})."`
}

// Help is what --help says beside the flags.
func (c *adminOwner) Help() string {
	return "For an address that has an account, give --existing. A verified account keeps its password. " +
		"If the address was never verified, nobody knows who chose the password: the account gets a new one, and its sessions end. The " + whencePassword
}

// Run makes the owner.
func (c *adminOwner) Run(s *session) error {
	pool, done, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
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
	var password string // a verified account keeps its own
	if !verified {
		if password, err = readPassword(s); err != nil {
			return err
		}
	}
	if c.Name == "" {
		c.Name = c.Email
	}
	var owner person.Person
	err = pgx.BeginFunc(s.ctx, pool, func(tx pgx.Tx) error { // no workspace without its owner
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
		s.note("The account keeps its password. Run weft admin password %s to set another one.", owner.Email)
	case exists:
		s.note("The address of this account was not verified. It is now: the account has the new password, and all its sessions have ended.")
	}
	return nil
}

// adminPassword is for who forgot it: nothing else of the person changes.
type adminPassword struct {
	database
	Email    string `arg:"" help:"E-mail address of the person."`
	Verified bool   `help:"Also record that the person who gets the password owns the address. The account may then join several workspaces."`
}

// Help is what --help says beside the flags.
func (c *adminPassword) Help() string { return "The " + whencePassword }

// Run sets the password.
func (c *adminPassword) Run(s *session) error {
	pool, done, err := c.open(s.ctx)
	if err != nil {
		return err
	}
	defer done()
	password, err := readPassword(s)
	if err != nil {
		return err
	}
	of, err := person.SetPassword(s.ctx, pool, c.Email, password, c.Verified)
	if err != nil {
		return err
	}
	s.note("%s has another password; every session of theirs has ended.", of.Email)
	if c.Verified {
		s.note("The address is verified now.")
	}
	return nil
}

// whencePassword says where a password is taken from.
const whencePassword = "password is that of WEFT_ADMIN_PASSWORD; if that is not set, it is asked for, or read from the first line of standard input if that is not a terminal. It must have 12 to 256 characters."

// readPassword takes the password from the environment, or else a line of the
// input. A person who types it does not see it, and types it twice.
func readPassword(s *session) (string, error) {
	if password := s.getenv(passwordVariable); password != "" {
		return password, nil
	}
	input := bufio.NewReader(s.stdin)
	terminal, err := hide(s.stdin)
	if err != nil {
		return "", fmt.Errorf("%w (set %s instead)", err, passwordVariable)
	}
	if terminal == nil {
		password, err := readLine(s.ctx, input)
		if err == nil && password == "" {
			return "", fmt.Errorf("there is no password: set %s, or give it as the first line of standard input", passwordVariable)
		}
		return password, err
	}
	defer stty(terminal, "echo") //nolint:errcheck // the terminal is gone
	s.note("Password (at least %d characters; it is not shown):", person.MinPassword)
	password, err := readLine(s.ctx, input)
	if err != nil {
		return "", err
	}
	s.note("The same once more:")
	again, err := readLine(s.ctx, input)
	if err != nil {
		return "", err
	}
	if again != password {
		return "", errors.New("the two passwords are not the same; nothing was changed")
	}
	return password, nil
}

// readLine ends with ctx too: Ctrl-C must not leave a terminal without its echo.
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
		return "", errors.New("nothing was given; nothing was changed")
	case a := <-read:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", fmt.Errorf("read the line: %w", a.err)
		}
		return strings.TrimRight(a.line, "\r\n"), nil
	}
}

// hide gives the terminal behind an input, which shows no more what is typed; nil
// if there is none.
func hide(input io.Reader) (*os.File, error) {
	file, ok := input.(*os.File)
	if !ok {
		return nil, nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, nil //nolint:nilerr // what cannot be looked at is read like a pipe
	}
	err := stty(file, "-echo")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("hide what is typed: %w", err)
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
