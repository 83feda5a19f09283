package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/spelling"
	"github.com/weft-automation/weft/internal/local/client"
)

// explain adds hints to errors that new users meet, and names flags and arguments instead of the
// parts of the request.
func (s *session) explain(err error, credentials client.Credentials) error {
	problem, ok := errors.AsType[*client.Problem](err)
	switch {
	case !ok && unreachable(err):
		return coded{fmt.Errorf("no Weft answers at %s (%s). %s", credentials.BaseURL, reasonOf(err), startHint(credentials.BaseURL)), exitUnreachable}
	case !ok:
		return err
	case slices.ContainsFunc(problem.Errors, isBlockedCallback):
		err = fmt.Errorf("%w\n%s", err, networkHint)
	case problem.Reason != nil && *problem.Reason == "invalid_credentials" && !problem.Altered:
		return fmt.Errorf("%w\nThe credentials are for %s. To use others, set --credentials FILE. To create a key there, run `weft keys create`; `weft dev` creates one at its next start", err, credentials)
	}
	if problem.Status == http.StatusNotFound && s.command != nil && s.command.Parent != nil && s.command.Parent.Type == kong.CommandNode {
		err = fmt.Errorf("%w\nTo list the %s: weft %[2]s list", err, s.command.Parent.Name)
	}
	for i, one := range problem.Errors {
		place := s.place(one.Pointer)
		problem.Detail = strings.ReplaceAll(problem.Detail, one.Pointer, place)
		problem.Errors[i].Pointer = place
	}
	return err
}

// reasonOf returns the reason why a request could not be sent, without the address.
func reasonOf(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return err.Error()
}

// startHint says how to start the service, or how to check an address elsewhere.
func startHint(baseURL string) string {
	if address, err := url.Parse(baseURL); err == nil && (address.Hostname() == "localhost" || strings.HasPrefix(address.Hostname(), "127.")) {
		return "Start one with: weft dev"
	}
	return "Check the address. To check your setup: weft doctor"
}

// place names what the user wrote for a part of the request: a flag, an argument, or a field of the
// input or the config.
func (s *session) place(pointer string) string {
	path := strings.TrimPrefix(pointer, "/")
	for _, part := range []string{"query/", "path/"} {
		path = strings.TrimPrefix(path, part)
	}
	name, inner, nested := strings.Cut(path, "/")
	if nested && (name == "input" || name == "config") {
		return name + "." + strings.ReplaceAll(inner, "/", ".")
	}
	if s.command == nil {
		return pointer
	}
	name = cmp.Or(strings.TrimSuffix(strings.TrimPrefix(path, "verification/"), "Id"), name)
	name = kebab(name)
	for _, one := range s.command.Flags {
		if one.Name == name {
			return "--" + name
		}
	}
	for _, one := range s.command.Positional {
		if one.Name == name {
			return strings.ToUpper(name)
		}
	}
	return pointer
}

// kebab returns the name of the flag for a field: callbackUrl is callback-url.
func kebab(name string) string {
	var flag strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			flag.WriteByte('-')
		}
		flag.WriteRune(unicode.ToLower(r))
	}
	return flag.String()
}

// suggest replaces the error for an unknown component.
func (c *callCommand) suggest(err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok || problem.Status != http.StatusNotFound && !slices.ContainsFunc(problem.Errors, func(one api.ProblemDetail) bool { return one.Pointer == "MODULE" }) {
		return err
	}
	return unknownModule(problem, c.Module)
}

// unknownModule returns the error for a component that the service does not have, with the name that
// the service suggests.
func unknownModule(problem *client.Problem, name string) error {
	hint := ". "
	if _, after, found := strings.Cut(problem.Detail, "did you mean "); found {
		nearest, _, _ := strings.Cut(after, "?")
		hint = "; did you mean " + printable(nearest) + "? "
	}
	return notFound("there is no component %q%sTo list the components: weft components list", printable(name), hint)
}

// didYouMean suggests the nearest name, if one is near.
func didYouMean(text string, names []string) string {
	best, least := "", max(1, len(text)/3)
	for _, name := range names {
		if d := spelling.Distance(bare(text), bare(name)); d <= least && d < len(text) {
			best, least = name, d-1
		}
	}
	part := func(name string) bool { return len(text) > 2 && strings.Contains(bare(name), bare(text)) }
	if at := slices.IndexFunc(names, part); best == "" && at >= 0 {
		best = names[at]
	}
	if best == "" {
		return ". "
	}
	return fmt.Sprintf("; did you mean %s? ", printable(best))
}

// bare returns a name without what people mix up.
func bare(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
}
