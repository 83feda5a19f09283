package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// environmentPath is where environment variables are.
const environmentPath = "/v1/sdk/environment-variables"

// envCommand keeps what workflows name as {{env.NAME}}.
type envCommand struct {
	List  envList  `cmd:"" help:"List the variables; the values of secret ones are never shown."`
	Set   envSet   `cmd:"" help:"Give a variable its value, and make it if there is none."`
	Unset envUnset `cmd:"" help:"Remove a variable."`
}

var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// variablePath is where a variable is. The service has no path for what cannot be the name of one.
func variablePath(name string) (string, error) {
	if len(name) > 64 || !variableName.MatchString(name) {
		return "", fmt.Errorf("%q is no name of a variable: it has 1 to 64 capitals, digits and underscores, and begins with a capital", name)
	}
	return environmentPath + "/" + name, nil
}

// shownValue is how many characters of a value the list shows.
const shownValue = 60

type envList struct{ target }

func (c *envList) Run(s *session) error {
	const all = 200 // that a workspace may have
	variables, more, err := list[api.EnvironmentVariable](s, c.target, environmentPath, url.Values{}, all)
	if err != nil {
		return err
	}
	slices.SortFunc(variables, func(a, b api.EnvironmentVariable) int { return cmp.Compare(a.Name, b.Name) })
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tSECRET\tUPDATED\tVALUE\tDESCRIPTION")
	for _, v := range variables {
		secret, value := "no", ""
		if v.Secret {
			secret = "yes"
		}
		if v.Value != nil {
			value = printable(*v.Value)
		}
		if runes := []rune(value); len(runes) > shownValue {
			value = string(runes[:shownValue]) + "..."
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", v.Name, secret, date(v.UpdatedAt), value, printable(v.Description))
	}
	s.noteMore(more)
	return table.Flush()
}

type envSet struct {
	target
	Name        string  `arg:"" help:"Name: capitals, digits and underscores."`
	Value       *string `arg:"" optional:"" help:"Value of one that is not secret. Without it, the value is that of standard input."`
	Secret      *bool   `negatable:"" help:"Never show the value again, and take it out of errors and logs. Without it, a new variable is not secret, and one that is there stays as it is."`
	Description *string `placeholder:"TEXT" help:"What it is for; without it, as it was."`
}

// Help is what --help says beside the flags.
func (c *envSet) Help() string {
	return "A secret value is read from standard input, without the line's end, or asked for: arguments are seen by whoever lists processes. Runs that begin from now on take the new value."
}

func (c *envSet) Run(s *session) error {
	path, err := variablePath(c.Name)
	if err != nil {
		return err
	}
	request := api.SetEnvironmentVariableRequest{Secret: c.Secret, Description: c.Description}
	switch {
	case c.Value != nil && c.Secret != nil && *c.Secret:
		return errors.New("a secret value is no argument, which others can see: leave it out and give it on standard input")
	case c.Value != nil:
		request.Value = *c.Value
	default:
		value, there, err := readHidden(s, "Value of "+c.Name)
		if err != nil {
			return err
		}
		if !there { // else a forgotten value would empty the variable
			return errors.New(`there is no value: give it on standard input, or as an argument ("" for an empty one)`)
		}
		request.Value = value
	}
	if !utf8.ValidString(request.Value) {
		return errors.New("the value is no text in UTF-8")
	}
	body, err := strictjson.Encode(request)
	if err != nil {
		return err
	}
	raw, err := c.ask(s, http.MethodPut, path, body, nil)
	if err != nil {
		return err
	}
	var set api.EnvironmentVariable
	if err := json.Unmarshal(raw, &set); err != nil {
		return fmt.Errorf("read the variable: %w", err)
	}
	kind := ""
	if set.Secret {
		kind = ", secret"
	}
	s.note("%s is set%s. Workflows name it {{env.%s}}.", set.Name, kind, set.Name)
	return nil
}

// readHidden takes a value from standard input: a line that is not shown while it is typed,
// or all that comes through a pipe but for the last line's end. An empty pipe has none.
func readHidden(s *session, what string) (value string, there bool, err error) {
	terminal, err := hide(s.stdin)
	if err != nil {
		return "", false, fmt.Errorf("%w (give it through a pipe instead)", err)
	}
	if terminal != nil {
		defer stty(terminal, "echo") //nolint:errcheck // the terminal is gone
		s.note("%s (it is not shown):", what)
		value, err = readLine(s.ctx, bufio.NewReader(s.stdin))
		return value, true, err
	}
	raw, err := io.ReadAll(s.stdin)
	if err != nil {
		return "", false, fmt.Errorf("read from standard input: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), len(raw) > 0, nil
}

type envUnset struct {
	target
	Name string `arg:"" help:"Name of the variable."`
}

func (c *envUnset) Run(s *session) error {
	path, err := variablePath(c.Name)
	if err != nil {
		return err
	}
	if _, err := c.ask(s, http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	s.note("%s is gone. Runs that began before keep the value that they took.", c.Name)
	return nil
}
