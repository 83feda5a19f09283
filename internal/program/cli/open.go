package cli

import (
	"net/url"
	"os/exec"
	"runtime"

	"github.com/weft-automation/weft/internal/local/client"
)

// openCommand opens the page of the workspace in the browser.
type openCommand struct {
	target
	Print bool `help:"Print the address instead of opening it. This is the default if the output is not a terminal."`
}

func (c *openCommand) Run(s *session) error {
	credentials, err := c.read(s)
	if err != nil {
		return err
	}
	base, err := client.ParseBase(credentials.BaseURL)
	if err != nil {
		return usage("--base-url: %w", err)
	}
	page := base.JoinPath("settings", "workspaces", url.PathEscape(credentials.WorkspaceID.String())).String()
	if terminal(s.stdout) && !c.Print && s.tabular() && s.browse(page) {
		s.note("Opened %s", page)
		return nil
	}
	return s.printText(page, map[string]string{"url": page})
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
