package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/program/app"
)

// workspacePath is the path of the workspace of a key.
const workspacePath = "/v1/sdk/workspace"

// versionCommand prints the version of this program.
type versionCommand struct{}

func (c *versionCommand) Run(s *session) error {
	return s.printText(app.Version, map[string]string{"version": app.Version})
}

// whoamiCommand prints the workspace and the key of the credentials.
type whoamiCommand struct{ target }

func (c *whoamiCommand) Run(s caller) error {
	raw, err := s.get(workspacePath)
	return s.printAnswer(raw, err, "Workspace=name", "Workspace ID=id", "Plan=plan", "Key=apiKey.label", "Key ID=apiKey.id", "Workflows=apiKey.allowedWorkflowIds")
}

// creditsCommand prints the credits of the workspace.
type creditsCommand struct{ target }

func (c *creditsCommand) Run(s caller) error {
	raw, err := s.get(workspacePath)
	return s.printAnswer(at(raw, "credits"), err, "Available=availableCredits", "Of the plan=planCredits", "Paid=paidCredits", "Reserved=reservedCredits",
		"Used this month=usedThisMonth", "Plan=plan", "Per month=monthlyCredits", "Next reset=nextResetAt")
}

// usageCommand prints what the workspace used this month.
type usageCommand struct{ target }

func (c *usageCommand) Run(s caller) error {
	raw, err := s.get(workspacePath)
	return s.printAnswer(at(raw, "credits"), err, "Month starts=monthStartsAt", "Credits used=usedThisMonth", "Usage limit=usageLimit", "Stored bytes=storedBytes", "Storage limit=storageLimit")
}

// limitsCommand prints the rate limits, and what is left of each.
type limitsCommand struct{ target }

func (c *limitsCommand) Run(s caller) error {
	raw, err := s.get("/v1/sdk/limits")
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		lines := s.newTable(out, "LIMIT", "MAXIMUM", "LEFT", "OPEN")
		for _, name := range []string{"requestsPerSecond", "requestsPerHour", "inlineWaits", "streams"} {
			maximum := s.cell(at(raw, name+".limit"))
			if maximum == "" {
				maximum = "no limit"
			}
			lines.row(title(name), maximum, s.cell(at(raw, name+".remaining")), s.cell(at(raw, name+".open")))
		}
		return lines.flush()
	})
}

// apiCommand sends one signed request to the service of the credentials, and to no other address.
type apiCommand struct {
	target
	Method string `arg:"" help:"Method of the request. It can be left out: GET, or POST with --body."`
	Path   string `arg:"" optional:"" help:"Path of the request, with its query, such as /v1/sdk/limits."`
	Body   string `placeholder:"JSON" help:"Body of the request: JSON, @FILE, or - for stdin."`

	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key changes nothing more."`
}

func (c *apiCommand) Run(s caller) error {
	if c.Path == "" {
		c.Method, c.Path = http.MethodGet, c.Method
		if c.Body != "" {
			c.Method = http.MethodPost
		}
	}
	path, err := url.ParseRequestURI(c.Path)
	if err != nil || !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "# ") {
		return usage("%q is not a path such as /v1/sdk/limits", c.Path)
	}
	var body []byte
	if c.Body != "" {
		if body, err = readObject("--body", c.Body, s.stdin); err != nil {
			return err
		}
	}
	raw, err := s.ask(strings.ToUpper(c.Method), path.RequestURI(), body, idempotencyHeader(c.IdempotencyKey))
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		if json.Valid(raw) {
			return printJSON(out, raw)
		}
		_, err := out.Write(raw)
		return err
	})
}

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
