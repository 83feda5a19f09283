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

// verified has the flags for how deliveries are authenticated.
type verified struct {
	Preset           string `default:"" enum:",stripe,slack,github,shopify,standardWebhooks" placeholder:"NAME" help:"Sender whose signatures are known: stripe, slack, github, shopify or standardWebhooks."`
	Header           string `xor:"scheme" placeholder:"HEADER" help:"Header with the HMAC of the body, such as X-Hub-Signature-256."`
	Prefix           string `placeholder:"TEXT" help:"Text before the HMAC in the header, such as sha256=."`
	Algorithm        string `default:"" enum:",sha1,sha256,sha384,sha512" placeholder:"NAME" help:"Hash function of the HMAC: sha1, sha256, sha384 or sha512 (sha256)."`
	Encoding         string `default:"" enum:",hex,base64,base64url" placeholder:"NAME" help:"Encoding of the HMAC: hex, base64 or base64url (hex)."`
	DeliveryHeader   string `name:"delivery-header" placeholder:"HEADER" help:"Header with the ID of a delivery. Deliveries with the same ID or body start one run; without this header each delivery starts a run."`
	AcceptRepeated   bool   `name:"accept-repeated-bodies" help:"Start a run for a delivery with a new ID even if its body was received before. Anyone who captured a delivery can then send it again with another ID. Needs --delivery-header."`
	VerifyTokenFile  string `name:"verify-token-file" placeholder:"FILE" help:"File with the token by which the sender verifies the address (hub.verify_token). An empty file removes the token."`
	FormField        string `name:"form-field" placeholder:"NAME" help:"Field of a form that contains the JSON of the delivery, such as payload."`
	PreviousFile     string `name:"previous-secret-file" placeholder:"FILE" help:"File with the previous secret, which is accepted as well. An empty file removes it."`
	StandardWebhooks bool   `name:"standard-webhooks" xor:"scheme" help:"Verify deliveries by Standard Webhooks."`
}

// given reports whether the flags describe a verification.
func (c verified) given() bool { return c.Preset != "" || c.Header != "" || c.StandardWebhooks }

// check rejects flags that need others.
func (c verified) check() error {
	if c.Preset != "" && (c.Header != "" || c.StandardWebhooks) {
		return usage("--preset can't be used with --header or --standard-webhooks")
	}
	if c.Header == "" && (c.Prefix != "" || c.Algorithm != "" || c.Encoding != "") {
		return usage("--prefix, --algorithm and --encoding need --header")
	}
	if c.DeliveryHeader != "" && c.Header == "" && c.Preset == "" {
		return usage("--delivery-header needs --header or --preset")
	}
	if c.AcceptRepeated && c.DeliveryHeader == "" && c.Preset == "" {
		return usage("--accept-repeated-bodies needs --delivery-header or --preset")
	}
	for flag, value := range map[string]string{"--form-field": c.FormField, "--previous-secret-file": c.PreviousFile} {
		if value != "" && !c.given() {
			return usage("%s needs --preset, --header or --standard-webhooks", flag)
		}
	}
	if c.VerifyTokenFile != "" && c.Header == "" && !c.StandardWebhooks {
		return usage("--verify-token-file needs --header or --standard-webhooks")
	}
	return nil
}

type hooksCreate struct {
	target
	verified
	Workflow       string   `arg:"" help:"Name or ID of the workflow."`
	Name           string   `placeholder:"TEXT" help:"Display name."`
	ShowHeader     []string `name:"show-header" placeholder:"HEADER" help:"Header that the workflow receives although its name suggests a secret, such as X-Gitlab-Token. Repeatable."`
	Paused         bool     `help:"Reject deliveries until the hook is resumed."`
	IdempotencyKey string   `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key creates nothing new."`
}

func (c *hooksCreate) Run(s caller) error {
	request := api.CreateHookRequest{Name: optional(c.Name), Status: paused(c.Paused)}
	if len(c.ShowHeader) > 0 {
		request.Headers = &c.ShowHeader
	}
	if err := c.check(); err != nil {
		return err
	}
	var err error
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
			"Prefix=verification.prefix", "Algorithm=verification.algorithm", "Encoding=verification.encoding", "Delivery header=verification.deliveryHeader",
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

// verification returns how deliveries are authenticated, according to the flags. Without a secret,
// a hook keeps its own.
func (c verified) verification(secret *string) (*api.NewVerification, error) {
	token, err := fileContent(c.VerifyTokenFile, "verify token")
	if err != nil {
		return nil, err
	}
	previous, err := fileContent(c.PreviousFile, "previous secret")
	if err != nil {
		return nil, err
	}
	if c.Preset != "" {
		return &api.NewVerification{
			Preset: new(api.VerificationPreset(c.Preset)), Secret: secret, PreviousSecret: previous, DeliveryHeader: optional(c.DeliveryHeader),
			AcceptRepeatedBodies: optional(c.AcceptRepeated), FormField: optional(c.FormField),
		}, nil
	}
	if c.StandardWebhooks {
		return &api.NewVerification{Scheme: new(api.VerificationSchemeStandardWebhooks), Secret: secret, PreviousSecret: previous, VerifyToken: token, FormField: optional(c.FormField)}, nil
	}
	return &api.NewVerification{
		Secret: secret, PreviousSecret: previous, VerifyToken: token, Header: optional(c.Header), Prefix: optional(c.Prefix), DeliveryHeader: optional(c.DeliveryHeader),
		Algorithm: optional(api.VerificationAlgorithm(c.Algorithm)), Encoding: optional(api.VerificationEncoding(c.Encoding)), AcceptRepeatedBodies: optional(c.AcceptRepeated), FormField: optional(c.FormField),
	}, nil
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
	NewSecret  bool     `name:"new-secret" help:"Replace the secret by one that is read from standard input, or prompted for."`
}

func (c *hooksUpdate) Run(s caller) error {
	request := api.ReplaceHookRequest{Name: optional(c.Name)}
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
		return usage("--new-secret needs --preset, --header or --standard-webhooks")
	case c.NewSecret:
		text, err := hookSecret(s.session)
		if err != nil {
			return err
		}
		secret = &text
	case !verifies && c.Name == "" && request.Headers == nil:
		return usage("nothing to update: set --name, --show-header, --preset, --header or --standard-webhooks")
	}
	if verifies {
		var err error
		if request.Verification, err = c.verification(secret); err != nil {
			return err
		}
	}
	return c.replace(s, request)
}
