package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// maxWait is the longest wait of a submit request (contract 4.1).
const maxWait = 15 * time.Second

// maxAttempts is the largest number of attempts (contract 4.1).
const maxAttempts = 3

// maxReconnects is how often in a row a broken stream is reconnected.
const maxReconnects = 5

// callCommand executes one component and prints its output. The exit code is 1 if the execution is FAILED.
type callCommand struct {
	target
	Module         string         `arg:"" help:"Name of the component, such as RANDOM_UUID."`
	Fields         []string       `arg:"" optional:"" name:"field=value" help:"Fields of the input or the config: strings as they are, other values as JSON; @FILE or @- takes the value from a file or stdin."`
	Input          string         `default:"{}" placeholder:"JSON" help:"Inputs: JSON, @FILE, or - for stdin."`
	Config         string         `default:"{}" placeholder:"JSON" help:"Config: JSON, or @FILE."`
	Wait           *time.Duration `xor:"how" placeholder:"15s" help:"How long the request waits for the result, 0s to 15s."`
	Stream         bool           `xor:"how" help:"Follow the event stream to the end, however long it takes."`
	Attempts       int32          `default:"1" help:"How often the component is tried, 1 to 3."`
	Deadline       string         `placeholder:"DURATION" help:"Time from now within which the execution must finish, such as 2h. Otherwise it is stopped."`
	CallbackURL    string         `name:"callback-url" placeholder:"URL" help:"URL to which the finished record is also posted."`
	CallbackSecret string         `name:"callback-secret" placeholder:"TEXT" help:"Secret for the callback's signature. Prefer $$WEFT_CALLBACK_SECRET, because other users can see arguments."`
	IdempotencyKey string         `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key returns the same execution."`
}

func (c *callCommand) Run(s *session) error {
	request, header, err := c.request(s)
	if err != nil {
		return err
	}
	weft, err := c.caller(s)
	if err != nil {
		return err
	}
	if len(c.Fields) > 0 {
		if err := c.fill(weft, &request); err != nil {
			return err
		}
	}
	if names := envref.Names(request.Input, request.Config); len(names) > 0 {
		s.note("{{env.%s}} is sent unchanged: environment variables have values in workflows only.", names[0])
	}
	if places := envref.Nearly(request.Input, request.Config); len(places) > 0 {
		s.note("%s is sent unchanged: environment variables have values in workflows only, where they are written {{env.NAME}}, in capital letters and without spaces.",
			printable(places[0]))
	}
	start := time.Now()
	waiting := s.wait("Waiting for %s", request.Module)
	record, raw, err := weft.Execute(s.ctx, request, header)
	waiting.end()
	if err != nil {
		return c.suggest(s.explain(err, weft.credentials))
	}
	s.note("%s  %s  %s", record.ID, record.Module, record.Status)
	if c.Stream && !record.Status.Terminal() {
		if record, raw, err = weft.follow(record.ID); err != nil {
			return err
		}
	}
	return s.finish(record, raw, time.Since(start))
}

// finish prints the output of an execution, and its result.
func (s *session) finish(record api.ComponentExecution, raw []byte, took time.Duration) error {
	if err := s.print(raw, func(out io.Writer) error { return printOutput(out, record.Output) }); err != nil {
		return err
	}
	return s.conclude(record, took)
}

// printOutput prints an output unless it is missing.
func printOutput(out io.Writer, output json.RawMessage) error {
	if len(output) == 0 || string(output) == "null" {
		return nil
	}
	return printJSON(out, output)
}

// goodSecret is the length in bytes from which the key of an HMAC is not reported as short: the output of
// SHA-256, as RFC 2104 recommends for keys of an HMAC. The service accepts shorter secrets, because
// existing clients send them (decisions 9.6).
const goodSecret = 32

// warnShortSecret warns of a callback secret that could be guessed. It never prints the secret. Of
// the two signatures of a callback, webhook-signature has the shorter key, because it decodes a
// whsec_ secret.
func warnShortSecret(s *session, secret string) {
	if length := len(signature.WebhookKey(secret)); length < goodSecret {
		s.note("Warning: the key of the callback's signature has %s. Anyone who guesses it can forge callbacks. Use at least %d random bytes, for example: openssl rand -hex %[2]d", counted(length, "1 byte", "%d bytes"), goodSecret)
	}
}

// request builds the request from the flags.
func (c *callCommand) request(s *session) (request api.ExecuteComponentRequest, header http.Header, err error) {
	wait := maxWait
	if c.Wait != nil {
		wait = *c.Wait
	}
	if wait < 0 || wait > maxWait {
		return request, nil, usage("--wait must be from 0s to %v; --stream waits until the execution is final", maxWait)
	}
	if c.Attempts < 1 || c.Attempts > maxAttempts {
		return request, nil, usage("--attempts must be 1 to %d, got %d", maxAttempts, c.Attempts)
	}
	request.Module = moduleName(c.Module)
	if request.Input, err = readObject("--input", c.Input, s.stdin); err != nil {
		return request, nil, err
	}
	if request.Config, err = readObject("--config", c.Config, nil); err != nil {
		return request, nil, err
	}
	if wait > 0 && !c.Stream {
		request.WaitForMs = new(int32(wait.Milliseconds()))
	}
	if c.Attempts != 1 {
		request.Attempts = &c.Attempts
	}
	if request.DeadlineMs, err = deadlineOf(c.Deadline); err != nil {
		return request, nil, err
	}
	if c.CallbackURL != "" {
		request.CallbackURL = &c.CallbackURL
	}
	secret := c.CallbackSecret
	if secret == "" && c.CallbackURL != "" {
		secret = s.getenv(callbackSecret)
	}
	if secret != "" {
		request.CallbackSecret = &secret
		warnShortSecret(s, secret)
	}
	header = preferStrict()
	if c.IdempotencyKey != "" {
		header.Set("Idempotency-Key", c.IdempotencyKey)
	}
	return request, header, nil
}

// fill sets the fields of the command line in the request, according to the service's schemas of the
// component.
func (c *callCommand) fill(s caller, request *api.ExecuteComponentRequest) error {
	one, _, err := s.component(request.Module)
	if err != nil {
		return c.suggest(err)
	}
	taken, err := newForms(one)
	if err != nil {
		return err
	}
	request.Input, request.Config, err = taken.fill(request.Module, c.Fields, s.stdin, request.Input, request.Config)
	if err != nil {
		return coded{err, exitUsage}
	}
	return nil
}

// readObject reads a flag's JSON object: the value itself, @FILE, or - for stdin.
func readObject(flag, text string, stdin io.Reader) (json.RawMessage, error) {
	raw, err := []byte(text), error(nil)
	if path, ok := strings.CutPrefix(text, "@"); ok {
		raw, err = os.ReadFile(path)
	} else if text == "-" && stdin != nil {
		raw, err = io.ReadAll(stdin)
	}
	if err != nil {
		return nil, usage("%s: %w", flag, err)
	}
	if err := strictjson.CheckObject(raw); err != nil {
		return nil, usage("%s: %w", flag, err)
	}
	return strictjson.Compact(raw), nil
}

// follow prints each change until the execution is final, and returns its record.
func (s caller) follow(executionID uuid.UUID) (record api.ComponentExecution, raw json.RawMessage, err error) {
	waiting := s.wait("Waiting for execution %s", executionID)
	defer waiting.end()
	last := status.ExecutionCreated
	err = followStream(s.session, func() iter.Seq2[api.ComponentExecutionEvent, error] { return s.Stream(s.ctx, executionID) }, func(event api.ComponentExecutionEvent) {
		if event.Status != last {
			last = event.Status
			s.note("%s  %s  %s", executionID, event.Module, event.Status)
		}
	})
	if err == nil {
		record, raw, err = s.Get(s.ctx, executionID)
	}
	return record, raw, s.explain(err, s.credentials)
}

// networkHint is the hint for rejected addresses.
const networkHint = "Weft reaches public addresses only. To allow other networks: weft dev --allow-network CIDR, or WEFT_ALLOW_NETWORKS."

// conclude prints the result.
func (s *session) conclude(record api.ComponentExecution, took time.Duration) error {
	took = took.Round(time.Millisecond)
	switch record.Status {
	case status.ExecutionCompleted:
		s.note("COMPLETED in %v, usage %v", took, record.TotalUsage)
		return nil
	case status.ExecutionFailed:
		failure := failureOf(record.Error)
		if strings.HasPrefix(failure, component.CodeAddressBlocked+":") {
			failure += "\n" + networkHint
		}
		return fmt.Errorf("FAILED after %v: %s", took, failure)
	}
	s.note("%s after %v; the execution continues (--stream waits until it is final)", record.Status, took)
	return nil
}

// isBlockedCallback reports whether a problem is a callbackUrl in a network that Weft may not reach.
func isBlockedCallback(fault api.ProblemDetail) bool {
	return fault.Pointer == "/callbackUrl" && (strings.Contains(fault.Message, "public addresses only") || strings.Contains(fault.Message, "must be https"))
}

// executionsCommand works on the executions of single components.
type executionsCommand struct {
	List           executionsList   `cmd:"" help:"List the executions, newest first."`
	Get            executionsGet    `cmd:"" help:"Print the record of an execution."`
	Watch          executionsWatch  `cmd:"" help:"Follow an execution until it finishes, and print its output."`
	Cancel         executionsCancel `cmd:"" help:"Cancel an execution."`
	ReplayCallback executionsReplay `cmd:"" name:"replay-callback" help:"Send the callback of an execution again, if its delivery failed."`
}

// executionsPath is the path of executions.
const executionsPath = componentsPath + "/executions"

// oneExecution is the argument of commands on one execution.
type oneExecution struct {
	target
	ID   uuid.UUID `arg:"" optional:"" name:"execution" help:"ID of the execution, or --last instead."`
	Last bool      `help:"Use the execution that was started last."`
}

// resolve sets the ID of the execution.
func (c *oneExecution) resolve(s caller) (err error) {
	c.ID, err = s.oneOrLast(executionsPath, "execution", c.ID, c.Last)
	return err
}

type executionsGet struct{ oneExecution }

func (c *executionsGet) Run(s caller) error {
	return s.printExecution(s.get(executionsPath + "/" + c.ID.String()))
}

// printExecution prints the record of an execution.
func (s caller) printExecution(raw []byte, err error) error {
	attempts := "attemptCount"
	if s.cell(at(raw, attempts)) == "" { // older servers do not report it
		attempts = "error.attempt"
	}
	fields := []string{"Module=module", "Status=status", "Started=createdAt", "Updated=updatedAt", "Took=TOOK", "Credits=totalUsage",
		"Error=error.code", "Message=error.message", "Attempts=" + attempts, "Next attempt=nextAttemptAt", "ID=id", "Output=output"}
	if s.cell(at(raw, "callback.url")) != "" {
		fields = append(fields, "Callback=callback.url", "Signed=callback.signed", "Delivered=callback.deliveredAt",
			"Deliveries tried=callback.attemptCount", "Last tried=callback.lastAttemptAt", "Last error=callback.lastError.message")
	}
	return s.printAnswer(raw, err, fields...)
}

// executionsWatch follows an execution. The exit code is 1 if it is FAILED.
type executionsWatch struct{ oneExecution }

func (c *executionsWatch) Run(s caller) error {
	record, raw, err := s.follow(c.ID)
	if err != nil {
		return err
	}
	return s.finish(record, raw, record.UpdatedAt.Std().Sub(record.CreatedAt.Std()))
}

// executionsCancel cancels an execution.
type executionsCancel struct {
	oneExecution
	Reason string `placeholder:"TEXT" help:"Reason shown in the error of the execution."`
}

func (c *executionsCancel) Run(s caller) error {
	var record api.ComponentExecution
	raw, err := s.exchange(http.MethodPut, executionsPath+"/"+c.ID.String()+"/cancellation", api.CancelExecutionRequest{Reason: optional(c.Reason)}, nil, &record)
	if err != nil {
		return err
	}
	if !record.Status.Terminal() {
		s.note("The current attempt is being stopped. To follow the execution: weft executions watch %s", c.ID)
	}
	return s.printExecution(raw, nil)
}

type executionsReplay struct {
	oneExecution
	Force bool `help:"Send the callback again even if it was delivered."`
}

func (c *executionsReplay) Run(s caller) error {
	path := executionsPath + "/" + c.ID.String() + "/replay-callback"
	if c.Force {
		path += "?force=true"
	}
	return s.printExecution(s.ask(http.MethodPost, path, nil, nil))
}
