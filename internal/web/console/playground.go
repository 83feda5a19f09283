package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/web/catalog"
	"github.com/weft-automation/weft/internal/web/form"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/web/portal"
)

// playgroundWait is how long the playground waits for the result of an execution. It is less than
// the time limit of a page.
const playgroundWait = 15 * time.Second

// hiddenSecret stands for a secret in the calls that the playground shows.
const hiddenSecret = "..."

// playgroundPage is the data of the page with the modules that can be called on their own.
type playgroundPage struct {
	page.Frame
	Query      string // of the filter; may be empty
	Categories []portal.Category
}

// modulePage is the data of the page on which a module is called.
type modulePage struct {
	page.Frame
	Module        api.Component
	Address       string
	Price, Effect string
	Repeat        string
	Input, Config *form.Form
	NewCall       uuid.UUID // makes resubmitting the form harmless
	Result        *executionRow
	Body          string // of the call, without secrets
	Secrets       bool   // the call has secrets, which Body doesn't have
	Programs      []portal.Program
}

// Redacts reports whether the output of the module has secrets, which the page doesn't show.
func (p modulePage) Redacts() bool { return len(secretsIn(p.Module, "/output")) > 0 }

// callable reports whether a module can be called on its own.
func callable(c api.Component) bool {
	return slices.Contains(c.ExecutionModes, api.ExecutionModeCOMPONENT)
}

// playground shows the modules that match the filter.
func (s *site) playground(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	p := playgroundPage{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	if p.Frame, err = s.Frame(ctx, v, "playground", "Playground"); err != nil {
		return err
	}
	wanted := strings.ToLower(p.Query)
	var found []api.Component
	for _, one := range s.Catalogue.All() {
		if callable(one) && strings.Contains(strings.ToLower(one.Module+" "+one.Title+" "+one.Description), wanted) {
			found = append(found, one)
		}
	}
	p.Categories = portal.Categories(found)
	s.Render(w, http.StatusOK, "playground", p)
	return nil
}

// module shows the page of a module, with the catalogue's example.
func (s *site) module(ctx context.Context, w http.ResponseWriter, r *http.Request, v page.Visitor) (err error) {
	p, err := s.modulePage(ctx, r, v)
	if err != nil {
		return err
	}
	input, config := catalog.Sample(p.Module)
	p.Input.Fill(input)
	p.Config.Fill(config)
	if err := p.show(s.Proxies.Origin(r), input, config); err != nil {
		return err
	}
	s.Render(w, http.StatusOK, "module", p)
	return nil
}

// modulePage returns the page of the module in the path, with empty forms. It returns NOT_FOUND for an
// unknown module, and for one that runs only in workflows.
func (s *site) modulePage(ctx context.Context, r *http.Request, v page.Visitor) (p modulePage, err error) {
	if p.Module, err = s.Catalogue.Get(r.PathValue("module")); err != nil {
		return p, err
	}
	if !callable(p.Module) {
		return p, fault.New(fault.NotFound, "%s can be executed only inside a workflow.", p.Module.Module)
	}
	if p.Frame, err = s.Frame(ctx, v, "playground", p.Module.Title); err != nil {
		return p, err
	}
	p.Address = p.Base() + "/playground/" + p.Module.Module
	p.Price, p.Effect, p.Repeat = catalog.PriceInWords(p.Module), catalog.EffectInWords(p.Module.Effect), catalog.RepeatInWords(p.Module.Repeat)
	p.Input = form.Of("/input", p.Module.Input, secretsIn(p.Module, "/input"))
	p.Config = form.Of("/config", p.Module.Config, secretsIn(p.Module, "/config"))
	p.NewCall, err = uuid7.New()
	return p, err
}

// secretsIn returns the places of secrets in a part of a module's call or in its output.
func secretsIn(m api.Component, part string) (paths []string) {
	for _, path := range m.SecretFields {
		if rest, found := strings.CutPrefix(path, part); found {
			paths = append(paths, rest)
		}
	}
	return paths
}

// hide redacts the secrets in the output of a module. Pages show them to nobody: the API returns them
// to programs and editors that need them.
func (s *site) hide(module string, output json.RawMessage) json.RawMessage {
	m, err := s.Catalogue.Get(module)
	if err != nil { // unknown to this process, so nothing is known to be harmless
		return nil
	}
	return component.Redact(output, secretsIn(m, "/output"))
}

// show adds the call with an input and a config to the page, without their secrets.
func (p *modulePage) show(origin string, input, config json.RawMessage) error {
	shown := struct {
		Module    string          `json:"module"`
		Input     json.RawMessage `json:"input"`
		Config    json.RawMessage `json:"config"`
		WaitForMs int             `json:"waitForMs"`
	}{p.Module.Module, p.Input.Hide(input, hiddenSecret), p.Config.Hide(config, hiddenSecret), 15000}
	p.Secrets = string(shown.Input) != string(input) || string(shown.Config) != string(config)
	body, err := strictjson.Encode(shown)
	if err != nil {
		return err
	}
	p.Body = catalog.Indented(body)
	p.Programs, err = portal.Programs(http.MethodPost, "/v1/sdk/components", p.Body, origin)
	return err
}

// call executes the module with what was typed, and shows the result. Resubmitting the form shows
// the same execution.
func (s *site) call(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := s.Member(r)
	if err != nil {
		return err
	}
	p, err := s.modulePage(ctx, r, v)
	if err != nil {
		return err
	}
	once := onceFor(r, v.WorkspaceID, "console.call") // parses the form
	input, fine := p.Input.Read(r.PostForm)
	config, good := p.Config.Read(r.PostForm)
	if err := p.show(s.Proxies.Origin(r), input, config); err != nil {
		return err
	}
	answer := http.StatusOK
	if err = s.allow(ctx, v, callOperation); err == nil && !(fine && good) {
		err = errUnreadable
	}
	if err == nil {
		err = s.submit(ctx, &p, execution.SubmitParams{WorkspaceID: v.WorkspaceID, Module: p.Module.Module, Input: input, Config: config, Attempts: 1, Idempotency: once})
	}
	if err != nil {
		answer, p.Fault = s.Explain(ctx, w.Header(), explained(err, p.Input, p.Config))
	}
	s.Render(w, answer, "module", p)
	return nil
}

// callOperation is the operation in the contract that the form of a module does.
const callOperation = "executeComponent"

// submit executes a call and adds its result to the page. It waits for the result if the plan of the
// workspace allows another wait.
func (s *site) submit(ctx context.Context, p *modulePage, params execution.SubmitParams) error {
	if done, allowed := s.Limiter.Open(ctx, params.WorkspaceID, ratelimit.Wait); allowed {
		params.WaitFor = playgroundWait
		defer done()
	}
	submitted, err := s.Executions.Submit(ctx, params)
	if err != nil {
		return err
	}
	submitted.Record.Output = s.hide(p.Module.Module, submitted.Record.Output)
	p.Result = new(executionRowOf(params.WorkspaceID, submitted.Record))
	return nil
}
