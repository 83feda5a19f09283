package cli

import (
	"net/http"

	"github.com/google/uuid"
)

// executionsCommand works on the executions of single components.
type executionsCommand struct {
	List           executionsList   `cmd:"" help:"List the executions, newest first."`
	Get            executionsGet    `cmd:"" help:"Print the record of an execution."`
	Watch          executionsWatch  `cmd:"" help:"Follow an execution until it finishes, and print its output."`
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
	return s.printExecution(http.MethodGet, "/"+c.ID.String())
}

// printExecution sends a request for an execution and prints its record.
func (s caller) printExecution(method, path string) error {
	raw, err := s.ask(method, executionsPath+path, nil, nil)
	fields := []string{"Module=module", "Status=status", "Started=createdAt", "Updated=updatedAt", "Credits=totalUsage",
		"Error=error.code", "Message=error.message", "Attempts=error.attempt", "ID=id", "Output=output"}
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

type executionsReplay struct {
	oneExecution
	Force bool `help:"Send the callback again even if it was delivered."`
}

func (c *executionsReplay) Run(s caller) error {
	path := "/" + c.ID.String() + "/replay-callback"
	if c.Force {
		path += "?force=true"
	}
	return s.printExecution(http.MethodPost, path)
}
