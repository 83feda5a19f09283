package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// The exit codes. weft conform also exits with 3 if it could not judge everything.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitAuthentication
	exitNotFound
	exitUnreachable
	exitRejected
)

// meanings describes the exit codes, in their order.
var meanings = []string{
	"Done: the command succeeded.",
	"Failed: the execution or run did not complete, or the command failed for another reason.",
	"Usage: a flag, an argument or a setting is missing or not valid. Nothing was sent.",
	"Authentication: credentials are missing, not accepted, or not sufficient. From weft conform: some parts were not judged.",
	"Not found: the service has nothing with this ID or name.",
	"Unreachable: no service answers, or it is not available now.",
	"Rejected: the service rejected the request.",
}

// coded is an error with the exit code of the command.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// usage returns an error of a flag or an argument.
func usage(format string, args ...any) error { return coded{fmt.Errorf(format, args...), exitUsage} }

// notFound returns an error of a name or an ID that does not exist.
func notFound(format string, args ...any) error {
	return coded{fmt.Errorf(format, args...), exitNotFound}
}

// errQuiet ends a command with exit code 1 after it has printed the reason.
var errQuiet = errors.New("already reported")

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	if own, ok := errors.AsType[coded](err); ok {
		return own.code
	}
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		return exitOfStatus(int(problem.Status))
	}
	if refused, ok := errors.AsType[*fault.Error](err); ok {
		return exitOfStatus(protocol.Status(refused))
	}
	if _, ok := errors.AsType[noWorkspace](err); ok {
		return exitNotFound
	}
	if errors.Is(err, errNoCredentials) {
		return exitAuthentication
	}
	if unreachable(err) {
		return exitUnreachable
	}
	return exitFailed
}

// exitOfStatus returns the exit code for the HTTP status of a problem.
func exitOfStatus(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitAuthentication
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exitUnreachable
	}
	if status >= http.StatusInternalServerError {
		return exitFailed
	}
	return exitRejected
}

// unreachable reports whether an error is that no service answers.
func unreachable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, ofRequest := errors.AsType[*url.Error](err)
	_, ofNetwork := errors.AsType[*net.OpError](err)
	return ofRequest || ofNetwork
}

// helpCommand prints the help of a command, or the exit codes.
type helpCommand struct {
	Topic []string `arg:"" optional:"" help:"A command, or exit-codes."`
	Man   string   `placeholder:"DIR" help:"Write a manual page for each command to this folder instead."`
}

func (c *helpCommand) Run(s *session) error {
	if len(c.Topic) != 1 || c.Topic[0] != "exit-codes" {
		parser, err := newParser(s, &commands{})
		if err != nil {
			return err
		}
		if c.Man != "" {
			return manual(parser.Model.Node, c.Man)
		}
		_, err = parser.Parse(append(c.Topic, "--help")) // exits after the help
		return coded{err, exitUsage}
	}
	type meaning struct {
		Code    int    `json:"code"`
		Meaning string `json:"meaning"`
	}
	all := make([]meaning, len(meanings))
	for code, text := range meanings {
		all[code] = meaning{code, text}
	}
	return s.printAll(all, view{columns: "EXIT_CODE=code MEANING=meaning"})
}

// failParse prints why the arguments are not valid, and returns the exit code. A group without a
// command prints its help.
func (s *session) failParse(err error, args []string) int {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if ok && isGroup(parse.Context) {
		if err := parse.Context.PrintUsage(false); err != nil {
			return exitFailed
		}
		return exitDone
	}
	s.complain("weft: %v", err)
	if at := slices.IndexFunc(args, negative.MatchString); at >= 0 {
		s.complain("Pass a negative number as --name=%[1]s, or as the last argument: -- %[1]s.", args[at])
	}
	s.hintRuns(args)
	if ok {
		s.complain("Try: %s --help", parse.Context.Model.Name+commandOf(parse.Context))
	}
	return exitUsage
}

// hintRuns prints the command that was meant by one such as weft run list, whose WORKFLOW is a verb.
func (s *session) hintRuns(args []string) {
	if len(args) > 1 && args[0] == "run" && slices.Contains([]string{"list", "ls", "get", "view", "watch", "cancel", "rerun", "signal"}, args[1]) {
		s.complain("For runs that have started: weft runs %s", args[1])
	}
}

// isGroup reports whether the arguments name a group of commands, and nothing else.
func isGroup(parsed *kong.Context) bool {
	node := parsed.Selected()
	if node != nil && node.Type == kong.CommandNode && len(node.Children) == 0 {
		return false
	}
	for _, step := range parsed.Path {
		if step.Flag != nil || step.Positional != nil {
			return false
		}
	}
	return parsed.Error == nil && len(parsed.Args) == len(parsed.Path)-1
}

func commandOf(parsed *kong.Context) string {
	if node := parsed.Selected(); node != nil {
		return " " + node.Path()
	}
	return ""
}
