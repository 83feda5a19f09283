package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var catalogueCases = []Case{
	{Part: "D9.1.catalogue", Name: "catalogue/200 every component with its schemas", Run: catalogueAll},
	{Part: "D8.2", Name: "catalogue/200 the ports of each component", Run: cataloguePorts},
	{Part: "D1.4, D7.5.price", Name: "catalogue/200 what components cost", Run: cataloguePrices},
	{Part: "D9.1.catalogue, D1.5.cursor", Name: "catalogue/200 by pages", Run: cataloguePages},
	{Part: "D9.1.catalogue", Name: "catalogue/404 unknown modules", Run: catalogueUnknown},
	{Part: "D9.1.system, D1.8.open", Name: "catalogue/200 in the dialect of generators", Run: catalogueSystem},
	{Part: "D9.3, D1.8.open", Name: "health/200", Run: health},
	{Part: "D9.4, D1.8.open", Name: "spec/200 in both forms, and equal", Run: specification},
}

// modules lists those that can also be executed on their own.
var modules = []string{
	"API_CALL", "GET_EVM_ACCOUNT_BALANCE", "HASH", "RANDOM_HEX", "RANDOM_UUID", "READ_EVM_CONTRACT", "WAIT_FOR_EVM_TRANSACTION",
	"TRANSFORM",
	"AGE_DECRYPT", "AGE_ENCRYPT", "BIGINT_CALCULATE", "CONVERT_UNITS", "DECODE", "ENCODE", "FORMAT_DATE", "GENERATE_AGE_ENCRYPTION", "HMAC", "JSON_PARSE",
	"JSON_STRINGIFY", "REGEX_MATCH",
	"GET_EVM_CHAIN_ID", "GET_EVM_NONCE", "GET_EVM_GAS_PRICE", "GET_EVM_LOGS", "GET_EVM_BLOCK", "GET_EVM_TRANSACTION", "GET_EVM_TRANSACTION_RECEIPT",
	"ESTIMATE_EVM_GAS", "RESOLVE_ENS_NAME", "BUILD_EVM_TRANSACTION", "BROADCAST_EVM_TRANSACTION",
	"BUILD_EVM_CALLDATA", "DECODE_EVM_FUNCTION_RESULT", "DECODE_EVM_LOG", "SIGN_EVM_TRANSACTION", "COMPUTE_EVM_ADDRESS", "GET_EVM_DERIVATION_PATH",
	"SIGN_EVM_MESSAGE", "VERIFY_EVM_MESSAGE", "SIGN_EVM_TYPED_DATA", "ERC20_ABI_CONSTANT", "ERC721_ABI_CONSTANT",
}

// controls lists the modules of control flow, which run only inside a workflow.
var controls = []string{
	"ARRAY_BUILDER", "BOOLEAN_CONSTANT", "CONTINUE", "DELAY", "FAIL", "FOR_EACH", "IF", "JSON_CONSTANT", "NUMBER_CONSTANT", "ON_API_CALLED", "ON_SCHEDULE", "ON_WEBHOOK",
	"REPEAT", "RESPOND", "RUN_WORKFLOW", "STRING_CONSTANT", "SWITCH", "WAIT_FOR_SIGNAL", "WAIT_UNTIL",
}

// catalogue returns every component.
func catalogue(t *probe.Trial) []api.Component {
	page := probe.Decode[api.ComponentPage](t, t.Get(probe.Components+"?limit=100"))
	t.Check(!page.HasMore && page.NextCursor == nil, "one page of 100 does not hold all")
	return page.Data
}

func catalogueAll(t *probe.Trial) {
	all := catalogue(t)
	var names []string
	for _, c := range all {
		names = append(names, c.Module)
		one := probe.Decode[api.Component](t, t.Get(probe.Components+"/"+c.Module))
		t.Equal(c.Module, string(t.JSON(one)), string(t.JSON(c)))
		for name, raw := range map[string]json.RawMessage{"input": c.Input, "config": c.Config, "output": c.Output} {
			var schema struct {
				Type       string
				Properties map[string]any
			}
			t.NoError(c.Module+" "+name, json.Unmarshal(raw, &schema))
			t.Equal(c.Module+" "+name+" type", schema.Type, "object")
			t.NoError(c.Module+" "+name+" is a schema", probe.CheckSchema(raw))
		}
		holdSecrets(t, c)
		t.Check(len(c.ExecutionModes) > 0 && c.TimeoutMs > 0 && c.Title != "" && c.Description != "", "%s is not described", c.Module)
		t.Check(c.Module != "API_CALL" || slices.ContainsFunc(c.SecretFields, func(field string) bool {
			return strings.HasPrefix(field, "/input/headers")
		}), "API_CALL: secret fields %v", c.SecretFields)
	}
	t.Check(slices.IsSorted(names), "not ordered by module: %v", names)
	for _, module := range slices.Concat(modules, controls) {
		t.Check(slices.Contains(names, module), "%s is missing", module)
	}
	for _, c := range all {
		want := []api.ExecutionMode{api.ExecutionModeCOMPONENT, api.ExecutionModeWORKFLOW}
		if slices.Contains(controls, c.Module) {
			want = want[1:]
		}
		if slices.Contains(modules, c.Module) || slices.Contains(controls, c.Module) {
			t.Equal(c.Module+" executionModes", c.ExecutionModes, want)
		}
	}
	uuid := all[slices.Index(names, "RANDOM_UUID")]
	t.Check(strings.Contains(string(uuid.Output), `"uuid"`), "the output of RANDOM_UUID: %s", uuid.Output)
	hash := all[slices.Index(names, "HASH")]
	t.Check(strings.Contains(string(hash.Input), `"data"`), "the input of HASH: %s", hash.Input)
	call := all[slices.Index(names, "API_CALL")]
	t.Check(strings.Contains(string(call.Config), `"apiUrl"`), "the config of API_CALL: %s", call.Config)
}

// ports maps each module that has more than the usual ports to its ports (decisions 8.2,
// components.md).
var ports = map[string]string{
	"IF": "then else error", "SWITCH": "/config/cases/*/name default error", "FOR_EACH": "each done next error", "REPEAT": "each done next exhausted error", "WAIT_FOR_SIGNAL": "next timeout error",
}

func cataloguePorts(t *probe.Trial) {
	for _, c := range catalogue(t) {
		t.Equal(c.Module+" ports", portsOf(t, c), ports[c.Module])
	}
}

// cataloguePrices decodes the prices. Amounts that the contract does not allow do not decode.
func cataloguePrices(t *probe.Trial) {
	prices := map[string]string{}
	for _, c := range catalogue(t) {
		prices[c.Module] = string(t.JSON(c.Price))
	}
	t.Equal("the price of RANDOM_UUID", prices["RANDOM_UUID"], "1")
	for _, module := range controls {
		t.Equal("the price of "+module, prices[module], "0")
	}
}

// portsOf lists the ports of a component in the catalogue; "" for the usual ports.
func portsOf(t *probe.Trial, c api.Component) string {
	var all []string
	for _, port := range c.Ports {
		t.Check((port.Name == nil) != (port.NamedBy == nil) && port.Description != "", "%s: a port %s", c.Module, t.JSON(port))
		if port.Name != nil {
			all = append(all, *port.Name)
		} else if port.NamedBy != nil {
			all = append(all, *port.NamedBy)
		}
	}
	if got := strings.Join(all, " "); got != "next error" {
		return got
	}
	return ""
}

// holdSecrets checks that each secret field exists in the schema.
func holdSecrets(t *probe.Trial, c api.Component) {
	for _, field := range c.SecretFields {
		part, _, _ := strings.Cut(strings.TrimPrefix(field, "/"), "/")
		schema := map[string]json.RawMessage{"input": c.Input, "config": c.Config, "output": c.Output}[part]
		t.Check(strings.Contains(string(schema), `"x-secret":true`), "%s: %s points at nothing that is marked", c.Module, field)
	}
	marked := 0
	for _, schema := range []json.RawMessage{c.Input, c.Config, c.Output} {
		marked += strings.Count(string(schema), `"x-secret":true`)
	}
	t.Check((marked > 0) == (len(c.SecretFields) > 0), "%s: %d marks, secret fields %v", c.Module, marked, c.SecretFields)
}

func cataloguePages(t *probe.Trial) {
	var names []string
	for query := "?limit=2"; query != ""; {
		page := probe.Decode[api.ComponentPage](t, t.Get(probe.Components+query))
		t.Check(len(page.Data) > 0 && len(page.Data) <= 2, "a page of %d", len(page.Data))
		for _, c := range page.Data {
			names = append(names, c.Module)
		}
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		if query = ""; page.NextCursor != nil {
			query = "?limit=2&cursor=" + *page.NextCursor
		}
	}
	t.Check(slices.IsSorted(names) && len(slices.Compact(slices.Clone(names))) == len(names) && len(names) >= len(modules), "pages: %v", names)
	for _, query := range []string{"?limit=0", "?limit=101", "?cursor=%20"} {
		t.Problem(t.Get(probe.Components+query), http.StatusBadRequest, "INVALID_INPUT")
	}
}

func catalogueUnknown(t *probe.Trial) {
	for module, hint := range map[string]string{
		"NO_SUCH_MODULE": "lists the modules", "x": "lists the modules", "-": "lists the modules", strings.Repeat("A", 65): "lists the modules",
		"random_uuid": "did you mean RANDOM_UUID?", "RANDOM-UID": "did you mean RANDOM_UUID?", "HUSH": "did you mean HASH?",
	} {
		p := t.Problem(t.Get(probe.Components+"/"+module), http.StatusNotFound, "NOT_FOUND")
		t.Check(strings.Contains(p.Detail, hint), "%s: %s", module, p.Detail)
	}
}

func catalogueSystem(t *probe.Trial) {
	open := probe.Request{Path: "/v1/system/components", Sign: probe.Signing{Alter: func(h http.Header) {
		without("X-Api-Key")(h)
		without("X-Sdk-Timestamp")(h)
		without("X-Sdk-Signature")(h)
	}}}
	all := probe.Decode[[]api.SystemComponent](t, t.Do(open))
	byModule := map[string]api.SystemComponent{}
	for _, c := range all {
		byModule[c.Module] = c
	}
	uuid := byModule["RANDOM_UUID"]
	t.Check(uuid.Name != "" && uuid.Type == "UTILITY" && len(uuid.ExecutionModes) > 0, "RANDOM_UUID: %s", t.JSON(uuid))
	t.Check(len(uuid.Outputs.Response) == 1 && uuid.Outputs.Response[0].Name == "uuid" && typeOf(uuid.Outputs.Response[0].Schema) == "string",
		"the outputs of RANDOM_UUID: %s", t.JSON(uuid.Outputs))
	balance := byModule["GET_EVM_ACCOUNT_BALANCE"]
	for _, name := range []string{"jsonRpcUrl", "tokenAddress", "account"} {
		i := slices.IndexFunc(balance.Inputs.Parameters, func(p api.SystemComponentParameter) bool { return p.Name == name })
		t.Check(i >= 0 && balance.Inputs.Parameters[i].Required && typeOf(balance.Inputs.Parameters[i].Schema) == "string",
			"the input %s of GET_EVM_ACCOUNT_BALANCE: %s", name, t.JSON(balance.Inputs))
	}
	call := byModule["API_CALL"]
	t.Check(string(call.Configs.Type) == "object" && slices.Contains(call.Configs.Required, "apiUrl"), "configs: %s", t.JSON(call.Configs))
	method := call.Configs.Properties["method"]
	t.Check(typeOf(method) == "string" && slices.Contains(method.Enum, any("GET")), "method: %s", t.JSON(method))
	algorithm := byModule["HASH"].Inputs.Parameters[0]
	t.Check(algorithm.Name == "algorithm" && typeOf(algorithm.Schema) == "" && strings.Contains(string(algorithm.JSONSchema), `"sha256"`), "algorithm: %s", t.JSON(algorithm))
	sum := byModule["BIGINT_CALCULATE"]
	for _, number := range sum.Inputs.Parameters {
		t.Check(number.Required && (typeOf(number.Schema) == "bigint" || number.Name == "operation"), "the input %s of BIGINT_CALCULATE: %s", number.Name, t.JSON(number))
	}
	t.Check(len(sum.Inputs.Parameters) == 3 && len(sum.Outputs.Response) == 1 && typeOf(sum.Outputs.Response[0].Schema) == "bigint", "BIGINT_CALCULATE: %s", t.JSON(sum))
	for _, response := range byModule["WAIT_FOR_EVM_TRANSACTION"].Outputs.Response {
		schema := response.Schema
		switch response.Name {
		case "status":
			t.Check(slices.Contains(schema.Enum, any("success")), "status: %s", t.JSON(schema))
		case "receipt":
			t.Check(typeOf(schema.Properties["blockHash"]) == "string" && slices.Contains(schema.Required, "blockHash"), "receipt: %s", t.JSON(schema))
		}
	}
	for _, fee := range byModule["GET_EVM_GAS_PRICE"].Outputs.Response {
		mayBeNull := fee.Schema.Nullable != nil && *fee.Schema.Nullable
		t.Check(fee.Required && mayBeNull == slices.Contains([]string{"baseFeePerGas", "maxFeePerGas", "maxPriorityFeePerGas"}, fee.Name), "the output %s of GET_EVM_GAS_PRICE: %s", fee.Name, t.JSON(fee))
	}
	items := byModule["FOR_EACH"].Inputs.Parameters
	t.Check(len(items) == 1 && items[0].Name == "items" && typeOf(items[0].Schema) == "array" && items[0].Schema.Items != nil, "the inputs of FOR_EACH: %s", t.JSON(items))
	array := byModule["ARRAY_BUILDER"].Outputs.Response
	t.Check(len(array) == 1 && array[0].Name == "array" && typeOf(array[0].Schema) == "array" && array[0].Schema.Items != nil, "the outputs of ARRAY_BUILDER: %s", t.JSON(array))
	for _, module := range slices.Concat(modules, controls) {
		t.Check(byModule[module].Module == module, "%s is missing", module)
	}
	components := catalogue(t)
	t.Equal("as many as in the catalogue", len(all), len(components))
	for _, c := range components {
		holdShapes(t, c, byModule[c.Module])
	}
}

// holdShapes compares a component in both catalogues: the fields, and which are required.
func holdShapes(t *probe.Trial, c api.Component, system api.SystemComponent) {
	t.Equal(c.Module+" type", system.Type, c.Category)
	t.Equal(c.Module+" name", system.Name, c.Title)
	t.Equal(c.Module+" executionModes", system.ExecutionModes, c.ExecutionModes)
	object := api.DialectTypeObject
	input := api.DialectSchema{Type: &object, Properties: map[string]api.DialectSchema{}}
	var written struct{ Properties map[string]json.RawMessage }
	t.NoError(c.Module+" input", json.Unmarshal(c.Input, &written))
	for _, p := range system.Inputs.Parameters {
		input.Properties[p.Name] = p.Schema
		if p.Required {
			input.Required = append(input.Required, p.Name)
		} else { // generators that ignore `required` make an input optional if its schema has no type
			t.Equal(c.Module+" optional "+p.Name, string(t.JSON(p.Schema)), "{}")
		}
		same(t, c.Module+" jsonSchema of "+p.Name, p.JSONSchema, written.Properties[p.Name])
	}
	output := api.DialectSchema{Type: &object, Properties: map[string]api.DialectSchema{}}
	for _, r := range system.Outputs.Response {
		output.Properties[r.Name] = r.Schema
		if r.Required {
			output.Required = append(output.Required, r.Name)
		}
	}
	holdDialect(t, c.Module+" input", c.Input, input)
	holdDialect(t, c.Module+" config", c.Config, api.DialectSchema{Type: &object, Properties: system.Configs.Properties, Required: system.Configs.Required})
	holdDialect(t, c.Module+" output", c.Output, output)
}

// holdDialect checks that everything in a schema that the dialect can express is in its translation.
func holdDialect(t *probe.Trial, at string, raw json.RawMessage, shown api.DialectSchema) {
	var schema struct {
		Type       any
		Enum       []any
		Items      json.RawMessage
		Properties map[string]json.RawMessage
		Required   []string
	}
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	t.NoError(at, json.Unmarshal(raw, &schema))
	t.Equal(at+" enum", len(shown.Enum) >= len(schema.Enum), true)
	kind, nullable := withoutNull(schema.Type)
	if shown.Type != nil && schema.Type != nil {
		t.Equal(at+" nullable", shown.Nullable != nil && *shown.Nullable, nullable)
	}
	switch kind {
	case "object":
		t.Equal(at+" type", typeOf(shown), "object")
		t.Equal(at+" properties", len(shown.Properties), len(schema.Properties))
		for name, property := range schema.Properties {
			one, known := shown.Properties[name]
			t.Check(known, "%s has no %s", at, name)
			t.Check(slices.Contains(shown.Required, name) == slices.Contains(schema.Required, name), "%s: whether %s is required", at, name)
			if typeOf(one) != "" || slices.Contains(shown.Required, name) { // an optional input has none
				holdDialect(t, at+"."+name, property, one)
			}
		}
	case "array":
		t.Equal(at+" type", typeOf(shown), "array")
		t.Equal(at+" items", shown.Items != nil, schema.Items != nil)
		if shown.Items != nil {
			holdDialect(t, at+"[]", schema.Items, *shown.Items)
		}
	case "integer", "number":
		t.Equal(at+" type", typeOf(shown), "number")
	case "boolean":
		t.Equal(at+" type", typeOf(shown), "boolean")
	case "string":
		t.Check(slices.Contains([]string{"string", "bigint"}, typeOf(shown)), "%s is a %s", at, typeOf(shown))
	}
}

// withoutNull returns the only type in `type` other than null, or nil if several such types exist.
// It also reports whether `type` contains null.
func withoutNull(named any) (kind any, nullable bool) {
	several, ok := named.([]any)
	if !ok {
		return named, false
	}
	others := slices.DeleteFunc(slices.Clone(several), func(one any) bool { return one == "null" })
	if len(others) == 1 {
		kind = others[0]
	}
	return kind, len(others) < len(several)
}

func typeOf(schema api.DialectSchema) string {
	if schema.Type == nil {
		return ""
	}
	return string(*schema.Type)
}
