package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/local/client"
)

// environmentPath is the path of environment variables.
const environmentPath = "/v1/sdk/environment-variables"

// envCommand manages the variables that workflows use as {{env.NAME}}.
type envCommand struct {
	List  envList  `cmd:"" help:"List the variables. The values of secret variables are never shown."`
	Get   envGet   `cmd:"" help:"Print the value of a variable. The value of a secret variable is never shown."`
	Set   envSet   `cmd:"" help:"Set a variable. Creates it if it does not exist."`
	Unset envUnset `cmd:"" help:"Remove a variable."`
}

var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// variablePath returns the path of a variable, or an error if the name is not valid.
func variablePath(name string) (string, error) {
	if len(name) > 64 || !variableName.MatchString(name) {
		return "", usage("%q is not a valid variable name: use 1 to 64 capital letters, digits and underscores, starting with a letter", name)
	}
	return environmentPath + "/" + name, nil
}

type envList struct{ target }

func (c *envList) Run(s caller) error {
	variables, err := s.variables()
	if err != nil {
		return err
	}
	return s.printAll(variables, view{
		columns: "NAME=name VALUE=value KIND=kind SECRET=secret UPDATED=updatedAt DESCRIPTION=description",
		empty:   "No variables. Set one: weft env set NAME VALUE",
	})
}

// variables returns all variables, by name.
func (s caller) variables() ([]api.EnvironmentVariable, error) {
	all, _, err := list[api.EnvironmentVariable](s, environmentPath, url.Values{}, size{All: true})
	slices.SortFunc(all, func(a, b api.EnvironmentVariable) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

type envGet struct {
	target
	Name string `arg:"" help:"Name of the variable."`
}

func (c *envGet) Run(s caller) error {
	if _, err := variablePath(c.Name); err != nil {
		return err
	}
	all, err := s.variables()
	if err != nil {
		return err
	}
	at := named(all, c.Name)
	if at < 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		return notFound("there is no variable %s%sTo list the variables: weft env list", c.Name, didYouMean(c.Name, names))
	}
	return s.printVariable(all[at])
}

// named returns the index of a variable, or -1.
func named(all []api.EnvironmentVariable, name string) int {
	return slices.IndexFunc(all, func(one api.EnvironmentVariable) bool { return one.Name == name })
}

// printVariable prints the value of a variable, or its record as JSON.
func (s *session) printVariable(one api.EnvironmentVariable) error {
	return s.printAs(one, func(out io.Writer) error {
		if one.Kind == "oauth2" {
			return coded{fmt.Errorf("%[1]s is an access token, which Weft fetches when a call needs it; neither the token nor the client secret can be read. To see its client: weft env get %[1]s -o json", one.Name), exitRejected}
		}
		if one.Value == nil {
			return coded{fmt.Errorf("%[1]s is secret, and secret values can't be read. To replace the value: weft env set %[1]s --secret", one.Name), exitRejected}
		}
		text := *one.Value
		if terminal(s.stdout) {
			text = printable(text)
		}
		_, err := fmt.Fprintln(out, text)
		return err
	})
}

type envSet struct {
	target
	Name        string  `arg:"" help:"Name: capital letters, digits and underscores."`
	Value       *string `arg:"" optional:"" help:"Value of a variable that is not secret. Without this argument, the value is read from standard input."`
	Secret      *bool   `negatable:"" help:"Never show the value again, and remove it from errors and logs. Without this flag, a new variable is not secret, and an existing variable stays as it is."`
	Description *string `placeholder:"TEXT" help:"Description of the variable. Default: no change."`

	OAuth2           bool    `name:"oauth2" help:"The variable is the current access token of a client (client credentials), which Weft fetches."`
	TokenURL         *string `name:"token-url" placeholder:"URL" help:"With --oauth2: address from which the token is fetched."`
	ClientID         *string `name:"client-id" placeholder:"ID" help:"With --oauth2: client ID."`
	ClientSecretFile string  `name:"client-secret-file" placeholder:"FILE" help:"With --oauth2: file with the client secret; - for standard input. Default: the secret stays."`
	Scope            *string `placeholder:"SCOPES" help:"With --oauth2: scopes to ask for, separated by spaces."`
	Audience         *string `placeholder:"TEXT" help:"With --oauth2: field audience of the request."`
	ClientAuth       *string `name:"client-auth" placeholder:"HOW" help:"With --oauth2: how the client ID and the secret are sent: header (the default) or body."`
}

// client fills in the fields of a variable that is an access token.
func (c *envSet) client(s *session, request *api.SetEnvironmentVariableRequest) error {
	if c.Value != nil {
		return usage("--oauth2 takes no value: Weft fetches the token")
	}
	request.Kind, request.TokenURL, request.ClientID = new("oauth2"), c.TokenURL, c.ClientID
	request.Scope, request.Audience, request.ClientAuth = c.Scope, c.Audience, c.ClientAuth
	var secret string
	switch c.ClientSecretFile {
	case "":
		return nil
	case "-":
		text, there, err := readHidden(s, "Client secret of "+c.Name)
		if err != nil {
			return err
		}
		if !there {
			return usage("the client secret is missing: pass it on standard input")
		}
		secret = text
	default:
		raw, err := os.ReadFile(c.ClientSecretFile)
		if err != nil {
			return err
		}
		secret = withoutLineEnd(raw)
	}
	if !utf8.ValidString(secret) {
		return usage("the client secret is not valid UTF-8")
	}
	request.ClientSecret = &secret
	return nil
}

// isClient reports whether a flag of --oauth2 is set.
func (c *envSet) isClient() bool {
	return c.TokenURL != nil || c.ClientID != nil || c.ClientSecretFile != "" || c.Scope != nil || c.Audience != nil || c.ClientAuth != nil
}

// isToken returns the error of a value for a variable that is an access token.
func (c *envSet) isToken() error {
	return usage("%[1]s is an access token, which Weft fetches. To set a value instead, remove it first: weft env unset %[1]s", c.Name)
}

func (c *envSet) Run(s caller) error {
	path, err := variablePath(c.Name)
	if err != nil {
		return err
	}
	request := api.SetEnvironmentVariableRequest{Secret: c.Secret, Description: c.Description}
	switch {
	case c.OAuth2:
		if err := c.client(s.session, &request); err != nil {
			return err
		}
	case c.isClient():
		return usage("--token-url and the other flags of a client need --oauth2")
	case c.Value != nil && c.Secret != nil && *c.Secret:
		return usage("don't pass a secret value as an argument, which other users can see; pipe it to standard input instead")
	case c.Value != nil:
		if request.Value = c.Value; c.Secret != nil {
			break
		}
		all, err := s.variables()
		if err != nil {
			return err
		}
		at := named(all, c.Name)
		if at >= 0 && all[at].Kind == api.EnvironmentVariableKindOauth2 {
			return c.isToken()
		}
		if at >= 0 && all[at].Secret {
			return usage("%[1]s is secret: don't pass its value as an argument, which other users can see. Pipe it to `weft env set %[1]s`, or add --no-secret if it isn't secret any more", c.Name)
		}
	default:
		value, there, err := readHidden(s.session, "Value of "+c.Name)
		if err != nil {
			return err
		}
		if !there { // otherwise a forgotten value would clear the variable
			return usage(`the value is missing: pass it on standard input or as an argument ("" for an empty one)`)
		}
		request.Value = &value
	}
	if request.Value != nil && !utf8.ValidString(*request.Value) {
		return usage("the value is not valid UTF-8")
	}
	var set api.EnvironmentVariable
	raw, err := s.exchange(http.MethodPut, path, request, nil, &set)
	if problem, refused := errors.AsType[*client.Problem](err); refused && problem.Reason != nil && *problem.Reason == "variable_is_token" {
		return c.isToken()
	}
	if err != nil {
		return err
	}
	kind := ""
	if set.Secret {
		kind = ", secret"
	}
	s.note("%s is set%s. Workflows refer to it as {{env.%s}}.", set.Name, kind, set.Name)
	return s.printRecord(raw, "Name=name", "Value=value", "Kind=kind", "Token address=tokenUrl", "Client ID=clientId", "Secret=secret", "Description=description")
}

// readHidden reads a value from standard input: on a terminal a line that is not echoed, otherwise
// everything without the last line break. The result there is false if the input is empty.
func readHidden(s *session, what string) (value string, there bool, err error) {
	terminal, err := disableEcho(s.stdin)
	if err != nil {
		return "", false, fmt.Errorf("%w (use a pipe instead)", err)
	}
	if terminal != nil {
		defer stty(terminal, "echo") //nolint:errcheck // fails only if the terminal is gone
		s.note("%s (it is not shown):", what)
		value, err = readLine(s.ctx, bufio.NewReader(s.stdin))
		return value, true, err
	}
	raw, err := io.ReadAll(s.stdin)
	if err != nil {
		return "", false, fmt.Errorf("read from standard input: %w", err)
	}
	return withoutLineEnd(raw), len(raw) > 0, nil
}

// withoutLineEnd returns the content of a file without its last line break.
func withoutLineEnd(raw []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
}

type envUnset struct {
	target
	Name string `arg:"" help:"Name of the variable."`
}

func (c *envUnset) Run(s caller) error {
	path, err := variablePath(c.Name)
	if err != nil {
		return err
	}
	return s.delete(path, "%s is deleted. Runs that have started keep the value.", c.Name)
}
