package portal

import (
	"strings"

	"github.com/weft-automation/weft/gen/api"
)

// Program is a program that signs and sends a request.
type Program struct{ Language, Code string }

// Programs returns programs that sign and send a request to the deployment at origin, each with the
// command that downloads its signer. body is JSON, or empty.
func Programs(method, target, body, origin string) ([]Program, error) {
	body = escapes.Replace(body)
	c := call{operation: operation{Method: method}, Target: target}
	if body != "" {
		c.Content = &content{Example: body}
	}
	samples, err := samplesOf(c)
	if err != nil {
		return nil, err
	}
	var all []Program
	for _, one := range samples {
		all = append(all, Program{one.Language, string(AtOrigin([]byte(one.Code), origin))})
	}
	return all, nil
}

// escapes write parts of JSON strings differently: the backtick, which would end the literal of the Go
// program, and the address for which origin is substituted.
var escapes = strings.NewReplacer("`", `\u0060`, local, strings.ReplaceAll(local, "/", `\/`))

// Categories returns the groups of components in their order, each with its components.
func Categories(all []api.Component) []Category { return newLibrary(all).categories }
