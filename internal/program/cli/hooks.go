package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// hooksPath is the path of hooks.
const hooksPath = "/v1/sdk/hooks"

// hooksCommand manages hooks, by which deliveries of other services start runs.
type hooksCommand struct {
	List   hooksList   `cmd:"" help:"List the hooks, each with its last delivery."`
	Create hooksCreate `cmd:"" help:"Create a hook: an address that another service calls to start runs of a workflow."`
	Get    oneHook     `cmd:"" help:"Print the record of a hook."`
	Update hooksUpdate `cmd:"" help:"Change the name or the verification of a hook."`
	Pause  oneHook     `cmd:"" help:"Pause a hook: reject deliveries until it is resumed."`
	Resume oneHook     `cmd:"" help:"Resume a hook: accept deliveries again."`
	Test   hooksTest   `cmd:"" help:"Send a signed example of a sender to a hook, and print the answer."`
	Delete oneHook     `cmd:"" help:"Delete a hook. Its address accepts no more deliveries."`
}

// hooksList prints the hooks, newest first.
type hooksList struct{ ofWorkflows }

func (c *hooksList) Run(s caller) error {
	filter, err := c.filter(s)
	if err != nil {
		return err
	}
	return s.printList(hooksPath, filter, c.size, view{
		columns: "NAME=name WORKFLOW=workflow STATUS=status SCHEME=verification.scheme HEADER=verification.header LAST=lastAt|- REJECTED=lastRefusedAt|- REASON=lastRefusal TIMES=refusalCount ID=id",
		empty:   "No hooks. Create one: " + createHook,
	})
}

type hooksCreate struct {
	target
	verified
	Workflow   string   `arg:"" help:"Key, name or ID of the workflow."`
	Name       string   `placeholder:"TEXT" help:"Display name."`
	ShowHeader []string `name:"show-header" placeholder:"HEADER" help:"Header that the workflow receives although its name suggests a secret, such as X-Gitlab-Token. Repeatable."`
	Respond    bool     `help:"Answer deliveries with the output of RESPOND, within 15 seconds."`
	startedRuns
	Paused         bool   `help:"Reject deliveries until the hook is resumed."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key creates nothing new."`
}

func (c *hooksCreate) Run(s caller) error {
	request := api.CreateHookRequest{Name: optional(c.Name), Status: paused(c.Paused), Respond: optional(c.Respond)}
	if len(c.ShowHeader) > 0 {
		request.Headers = &c.ShowHeader
	}
	if err := c.check(); err != nil {
		return err
	}
	var err error
	if request.DeadlineMs, request.CallbackURL, request.CallbackSecret, err = c.settings(); err != nil {
		return err
	}
	if request.WorkflowID, err = s.workflow(c.Workflow); err != nil {
		return err
	}
	if c.given() {
		secret, err := hookSecret(s.session)
		if err != nil {
			return err
		}
		if request.Verification, err = c.verification(&secret); err != nil {
			return err
		}
	}
	var made api.Hook
	raw, err := s.exchange(http.MethodPost, hooksPath, request, idempotencyHeader(c.IdempotencyKey), &made)
	if err != nil {
		return err
	}
	if made.Warnings != nil {
		for _, one := range *made.Warnings {
			s.note("Warning: %s", printable(one.Message))
		}
	}
	s.note("deliveries go to %s", strings.TrimSuffix(s.credentials.BaseURL, "/")+made.Path)
	return s.printHook(raw, nil)
}

// printHook prints a hook. Its table has the whole address for deliveries.
func (s caller) printHook(raw []byte, err error) error {
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		var hook struct {
			api.Hook
			Address string `json:"address"`
		}
		if err := json.Unmarshal(raw, &hook); err != nil {
			return err
		}
		hook.Address = strings.TrimSuffix(s.credentials.BaseURL, "/") + hook.Path
		addressed, err := strictjson.Encode(hook)
		if err != nil {
			return err
		}
		return s.drawNamed(out, addressed, "Name=name", "Workflow=workflow", "Status=status", "Address=address", "Preset=verification.preset", "Scheme=verification.scheme", "Header=verification.header",
			"Prefix=verification.prefix", "Algorithm=verification.algorithm", "Encoding=verification.encoding", "Delivery header=verification.deliveryHeader", "Delivery field=verification.deliveryField", "Responds=respond", "Deadline in ms=deadlineMs", "Callback=callback.url", "Signed=callback.signed",
			"Last delivery=lastAt", "Last run=lastRunId", "Last rejected=lastRefusedAt", "Reason=lastRefusal", "Rejected=refusalCount", "ID=id")
	})
}

// hookSecret reads the secret of a hook from standard input.
func hookSecret(s *session) (string, error) {
	secret, there, err := readHidden(s, "Secret of the hook")
	switch {
	case err != nil:
		return "", err
	case !there:
		return "", errors.New("the secret is missing: pass it on standard input")
	case !utf8.ValidString(secret):
		return "", errors.New("the secret is not valid UTF-8")
	}
	return secret, nil
}

// fileContent returns the text of a file without its line end, or nil without a file.
func fileContent(path, what string) (*string, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	return new(withoutLineEnd(raw)), nil
}

// oneHook is a command on one hook.
type oneHook struct {
	target
	Hook string `arg:"" help:"Name or ID of the hook."`
}

// resolve sets the ID of the hook.
func (c *oneHook) resolve(s caller) error {
	id, err := s.find(hooksPath, "hook", c.Hook)
	c.Hook = id.String()
	return err
}

func (c oneHook) path() string { return hooksPath + "/" + c.Hook }

// replace replaces the name, and what else the request sets.
func (c oneHook) replace(s caller, request api.ReplaceHookRequest) error {
	_, raw, err := replace(s, c.path(), func(one api.Hook) any {
		if request.Name == nil {
			request.Name = &one.Name
		}
		return request
	})
	return s.printHook(raw, err)
}

// Run does what the name of the command says.
func (c *oneHook) Run(s caller) error {
	switch s.command.Name {
	case "pause":
		return c.replace(s, api.ReplaceHookRequest{Status: new(api.TriggerStatusPAUSED)})
	case "resume":
		return c.replace(s, api.ReplaceHookRequest{Status: new(api.TriggerStatusACTIVE)})
	case "delete":
		return s.delete(c.path(), "%s is deleted. Runs that have started continue.", c.Hook)
	}
	return s.printHook(s.get(c.path()))
}

type hooksUpdate struct {
	oneHook
	verified
	Name       string   `placeholder:"TEXT" help:"New display name."`
	ShowHeader []string `name:"show-header" placeholder:"HEADER" help:"Header that the workflow receives although its name suggests a secret. Repeatable; replaces the list."`
	Respond    *bool    `negatable:"" help:"Answer deliveries with the output of RESPOND, within 15 seconds."`
	NewSecret  bool     `name:"new-secret" help:"Replace the secret by one that is read from standard input, or prompted for."`
	startedRuns
}

func (c *hooksUpdate) Run(s caller) error {
	request := api.ReplaceHookRequest{Name: optional(c.Name), Respond: c.Respond}
	if len(c.ShowHeader) > 0 {
		request.Headers = &c.ShowHeader
	}
	verifies := c.given()
	if err := c.check(); err != nil {
		return err
	}
	var secret *string
	switch {
	case c.NewSecret && !verifies:
		return usage("--new-secret needs %s", anyScheme)
	case c.NewSecret:
		text, err := hookSecret(s.session)
		if err != nil {
			return err
		}
		secret = &text
	case !verifies && c.Name == "" && request.Headers == nil && c.Respond == nil && c.startedRuns == (startedRuns{}):
		return usage("nothing to update: set --name, --show-header, --respond, --deadline, --callback-url, --callback-secret-file, %s", anyScheme)
	}
	var err error
	if request.DeadlineMs, request.CallbackURL, request.CallbackSecret, err = c.settings(); err != nil {
		return err
	}
	if verifies {
		if request.Verification, err = c.verification(secret); err != nil {
			return err
		}
	}
	return c.replace(s, request)
}
