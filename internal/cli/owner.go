package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/person"
	"github.com/weft-automation/weft/internal/plan"
	"github.com/weft-automation/weft/internal/workspace"
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
	NewWorkspace bool   `help:"Make the workspace if there is none of that name."`
	OnPlan       string `name:"plan" default:"starter" enum:"starter,growth,professional,enterprise" help:"Plan of a new workspace (${default})."`
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
	if err != nil && !missing {
		return err
	}
	password, err := readPassword(s)
	if err != nil {
		return err
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
		owner, err = person.CreateOwner(s.ctx, tx, id, person.Account{Email: c.Email, Name: c.Name, Password: password})
		return err
	})
	if err != nil {
		return err
	}
	s.note("%s is an owner of the workspace %s, and signs in at /settings.", owner.Email, c.Workspace)
	return nil
}

// adminPassword is for who forgot it: nothing else of the person changes.
type adminPassword struct {
	database
	Email string `arg:"" help:"E-mail address of the person."`
}

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
	of, err := person.SetPassword(s.ctx, pool, c.Email, password)
	if err != nil {
		return err
	}
	s.note("%s has another password; every session of theirs has ended.", of.Email)
	return nil
}

// readPassword takes the password from the environment, or else a line of the
// input, which is not shown where a person types it.
func readPassword(s *session) (string, error) {
	if password := s.getenv(passwordVariable); password != "" {
		return password, nil
	}
	if terminal, ok := s.stdin.(*os.File); ok && isTerminal(terminal) {
		s.note("Password (at least %d characters; it is not shown):", person.MinPassword)
		if err := stty(terminal, "-echo"); err != nil {
			return "", fmt.Errorf("hide the password: %w (set %s instead)", err, passwordVariable)
		}
		defer stty(terminal, "echo") //nolint:errcheck // the terminal is gone
	}
	line, err := bufio.NewReader(s.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func stty(terminal *os.File, mode string) error {
	command := exec.Command("stty", mode)
	command.Stdin = terminal
	return command.Run()
}
