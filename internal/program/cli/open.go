package cli

import (
	"os/exec"
	"runtime"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/local/client"
)

// openCommand opens a page of the console in the browser.
type openCommand struct {
	target
	RunID uuid.UUID `arg:"" optional:"" name:"run" help:"ID of a run, to open its page instead of the page of all runs."`
	Last  bool      `help:"Open the page of the run that was started last."`
	Print bool      `help:"Print the address instead of opening it. This is the default if the output is not a terminal."`
}

func (c *openCommand) Run(s caller) error {
	if c.RunID != uuid.Nil || c.Last {
		var err error
		if c.RunID, err = s.oneOrLast(runsPath, "run", c.RunID, c.Last); err != nil {
			return err
		}
		if _, err := s.get(runsPath + "/" + c.RunID.String() + "?stages=none"); err != nil { // it may not exist
			return err
		}
	}
	page, err := consolePage(s.credentials, c.RunID)
	if err != nil {
		return usage("--base-url: %w", err)
	}
	if terminal(s.stdout) && !c.Print && s.tabular() && s.browse(page) {
		s.note("Opened %s", page)
		return nil
	}
	return s.printText(page, map[string]string{"url": page})
}

// consolePage returns the address of the console's page of a run, or of all runs if runID is zero.
func consolePage(of client.Credentials, runID uuid.UUID) (string, error) {
	base, err := client.ParseBase(of.BaseURL)
	if err != nil {
		return "", err
	}
	page := base.JoinPath("console", of.WorkspaceID.String(), "runs")
	if runID != uuid.Nil {
		page = page.JoinPath(runID.String())
	}
	return page.String(), nil
}

// browse opens an address in the browser of $BROWSER, else in the default browser. It reports whether
// one was started.
func (s *session) browse(address string) bool {
	program := s.getenv("BROWSER")
	switch {
	case program != "":
	case runtime.GOOS == "darwin":
		program = "open"
	case s.getenv("DISPLAY")+s.getenv("WAYLAND_DISPLAY") != "":
		program = "xdg-open"
	default:
		return false
	}
	return exec.CommandContext(s.ctx, program, address).Run() == nil
}
