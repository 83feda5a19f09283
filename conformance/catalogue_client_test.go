package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component/modules/evm/evmtest"
)

// systemComponent holds the fields of GET /v1/system/components that a generator reads.
type systemComponent struct {
	Module         string
	ExecutionModes []string
	Inputs         struct {
		Parameters []struct {
			Name       string
			Schema     struct{ Type string }
			JSONSchema json.RawMessage
		}
	}
	Configs struct{ Required []string }
}

// required lists the inputs that a generated client requires. Existing generators do not read
// `required`: an input is optional only if its schema has no type.
func (c systemComponent) required() (names []string) {
	for _, parameter := range c.Inputs.Parameters {
		if parameter.Schema.Type != "" {
			names = append(names, parameter.Name)
		}
	}
	return names
}

func systemComponents(t *testing.T, behind *probe.Target) (all []systemComponent) {
	t.Helper()
	if err := json.Unmarshal(fetched(t, behind, "/v1/system/components"), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// unfinished maps modules that accept their required inputs and then fail to the error code.
var unfinished = map[string]string{
	"BUILD_EVM_TRANSACTION": "INVALID_INPUT", // the component also needs a receiver, or data that creates a contract
	"ESTIMATE_EVM_GAS":      "INVALID_INPUT", // as BUILD_EVM_TRANSACTION
	"SIGN_EVM_TRANSACTION":  "INVALID_INPUT", // the component also needs either a key or a signature
	"RESOLVE_ENS_NAME":      "INVALID_INPUT", // the chain has no registry of names
}

// A client that is generated from the open catalogue calls every component with its required inputs
// alone. If a required input is missing, the service rejects the call.
func TestAGeneratedClientCallsEveryComponentWithItsRequiredInputs(t *testing.T) {
	t.Parallel()
	behind := target(t)
	if !behind.Near {
		t.Log("a deployment elsewhere cannot reach this machine's chain")
		return
	}
	node := evmtest.Start(t)
	token := node.DeployToken(t, 1_000_000)
	components := systemComponents(t, behind)
	described := map[string]api.Component{}
	var values map[string]map[string]any
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	passes(t, behind, func(p *probe.Trial) {
		for _, c := range probe.Decode[api.ComponentPage](p, p.Get(probe.Components+"?limit=100")).Data {
			described[c.Module] = c
		}
		p.Check(len(components) == len(described) && len(components) > 50, "%d components, %d in the catalogue", len(components), len(described))
		values = fixtures(p, node, token, upstream.URL)
	})
	for _, c := range components {
		t.Run(c.Module, func(t *testing.T) {
			passes(t, behind, func(p *probe.Trial) { callsGenerated(p, c, generatedCall(p, c, described[c.Module], values)) })
		})
	}
}

func callsGenerated(t *probe.Trial, c systemComponent, call probe.Call) {
	if c.ExecutionModes[0] != "COMPONENT" {
		savesGenerated(t, call)
		return
	}
	e := t.Execute(call.Waiting(15000))
	if code := unfinished[call.Module]; code != "" {
		t.Equal(call.Module+" fails with", failureOf(t, call.Module, e).Code, code)
	} else {
		t.Check(e.Status == "COMPLETED", "%s with %s: %s %s", call.Module, t.JSON(call.Input), e.Status, e.Error)
	}
	rejectsWithout(t, call, c.required())
}

// generatedCall returns a call with the required inputs and config fields. Their values are from
// the example of the component or from fixtures.
func generatedCall(t *probe.Trial, c systemComponent, described api.Component, values map[string]map[string]any) probe.Call {
	example := func(schema json.RawMessage) map[string]any {
		var of struct{ Examples []map[string]any }
		t.NoError(c.Module, json.Unmarshal(schema, &of))
		t.Check(len(of.Examples) > 0, "%s has no example", c.Module)
		return of.Examples[0]
	}
	pick := func(names []string, from map[string]any) map[string]any {
		picked := map[string]any{}
		for _, name := range names {
			picked[name] = from[name]
			if _, asks := from["jsonRpcUrl"]; asks && values["chain"][name] != nil {
				picked[name] = values["chain"][name]
			}
			if own, ok := values[c.Module][name]; ok {
				picked[name] = own
			}
			t.Check(picked[name] != nil, "%s: no value of %s", c.Module, name)
		}
		return picked
	}
	return probe.Call{Module: c.Module, Input: pick(c.required(), example(described.Input)), Config: pick(c.Configs.Required, example(described.Config))}
}

// rejectsWithout omits each required input in turn.
func rejectsWithout(t *probe.Trial, call probe.Call, required []string) {
	for _, name := range required {
		less := call
		less.Input = maps.Clone(call.Input)
		delete(less.Input, name)
		problem := t.Problem(t.Post(probe.Components, less), http.StatusUnprocessableEntity, "INVALID_INPUT")
		t.Check(strings.HasPrefix(strings.Join(probe.Pointers(problem), " "), "/input"), "%s without %s: %v", call.Module, name, probe.Pointers(problem))
	}
}

// savesGenerated saves a workflow with a component that runs only in workflows. The workflow may
// lack other components. The component may lack a config field if an input can set that field, but
// it may lack no input.
func savesGenerated(t *probe.Trial, call probe.Call) {
	answer := t.Post(workflows, object{"name": call.Module, "components": []object{{"id": "one", "module": call.Module, "input": call.Input, "config": call.Config}}})
	if answer.Status == http.StatusOK {
		return
	}
	for _, pointer := range probe.Pointers(t.Problem(answer, http.StatusUnprocessableEntity, "INVALID_INPUT")) {
		t.Check(!strings.HasPrefix(pointer, "/components/0/input"), "%s with %s: %s: %s", call.Module, t.JSON(call), pointer, answer.Body)
	}
}

// fixtures are values by module that replace the values of the examples. The key "chain" applies to
// every module that calls a chain.
func fixtures(t *probe.Trial, node *evmtest.Node, token, upstream string) map[string]map[string]any {
	const key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" // of the first account of anvil
	executed := func(module string, input object) (output map[string]any) {
		e := t.Execute(probe.Call{Module: module, Input: input, Config: object{}}.Waiting(15000))
		t.Check(e.Status == "COMPLETED", "%s: %s", module, e.Error)
		t.NoError(module, json.Unmarshal(e.Output, &output))
		return output
	}
	from, to := node.Accounts[0], node.Accounts[1]
	built := executed("BUILD_EVM_TRANSACTION", object{"jsonRpcUrl": node.URL, "from": from, "to": to, "value": "1"})
	signed := executed("SIGN_EVM_TRANSACTION", object{"transaction": built["transaction"], "privateKey": key})
	broadcast := executed("BROADCAST_EVM_TRANSACTION", object{"jsonRpcUrl": node.URL, "signedTransaction": signed["signedTransaction"]})
	hash := fmt.Sprint(broadcast["transactionHash"])
	pair := executed("GENERATE_AGE_ENCRYPTION", object{})
	encrypted := executed("AGE_ENCRYPT", object{"data": "a message", "ageRecipient": pair["ageRecipient"]})
	return map[string]map[string]any{
		"chain":                       {"jsonRpcUrl": node.URL, "transactionHash": hash, "account": from, "from": from, "contractAddress": token, "tokenAddress": token},
		"TRANSFORM":                   {"expression": "1 + 1"},
		"API_CALL":                    {"apiUrl": upstream},
		"SIGN_EVM_TRANSACTION":        {"transaction": built["transaction"]},
		"BROADCAST_EVM_TRANSACTION":   {"signedTransaction": signed["signedTransaction"]},
		"GET_EVM_TRANSACTION_RECEIPT": {"transactionHash": hash},
		"AGE_DECRYPT":                 {"ciphertext": encrypted["ciphertext"], "ageIdentity": pair["ageIdentity"]},
	}
}
