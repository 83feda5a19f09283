package cli

import (
	"net/http"
	"net/url"

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

type executionsList struct {
	target
	size
}

func (c *executionsList) Run(s *session) error {
	return printList(s, c.target, executionsPath, url.Values{}, c.size, view{
		"MODULE=module STATUS=status STARTED=createdAt CREDITS=totalUsage CALLBACK=callback.deliveredAt|- ID=id",
		"No executions. Start one: weft call RANDOM_UUID",
	})
}

// oneExecution is the argument of commands on one execution.
type oneExecution struct {
	target
	ID uuid.UUID `arg:"" name:"execution" help:"ID of the execution."`
}

func (c oneExecution) path() string { return executionsPath + "/" + c.ID.String() }

type executionsGet struct{ oneExecution }

func (c *executionsGet) Run(s *session) error { return c.printGot(s, c.path()) }

// executionsWatch follows an execution. The exit code is 1 if it is FAILED.
type executionsWatch struct{ oneExecution }

func (c *executionsWatch) Run(s *session) error {
	weft, err := c.caller(s)
	if err != nil {
		return err
	}
	record, raw, err := follow(s, weft, c.ID)
	if err != nil {
		return err
	}
	return finish(s, record, raw, record.UpdatedAt.Std().Sub(record.CreatedAt.Std()))
}

type executionsReplay struct {
	oneExecution
	Force bool `help:"Send the callback again even if it was delivered."`
}

func (c *executionsReplay) Run(s *session) error {
	path := c.path() + "/replay-callback"
	if c.Force {
		path += "?force=true"
	}
	raw, err := c.ask(s, http.MethodPost, path)
	return s.printAnswer(raw, err)
}
