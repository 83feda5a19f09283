package workflowfile

import (
	"slices"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// The fields of other tools, and what to write instead. The names are in lower case, without - and _.
// The service knows the words for modules and for their inputs and configs.
var (
	rootWords = words{
		"write components":  {"steps", "step", "nodes", "tasks", "states", "jobs", "stages", "activities", "actions", "component", "do", "functions", "resources"},
		"write name":        {"workflowname", "title", "workflow"},
		"write description": {"comment", "summary", "docs"},
		"write inputSchema": {"inputs", "input", "params", "parameters", "args", "schema", "datainputschema"},
		"write after in the component that follows":                                                        {"edges", "transitions", "links", "flow"},
		"write a reference such as \"{{start.amount}}\" in the component that needs the value":             {"connections", "wires"},
		"remove it, and write a first component with the module ON_API_CALLED, ON_SCHEDULE or ON_WEBHOOK":  {"on", "trigger", "events", "schedule", "cron"},
		"remove it: the first component starts":                                                            {"startat", "start", "entrypoint"},
		"remove it: a workflow that completes answers with a component with the module RESPOND":            {"output", "outputs", "result", "return"},
		"remove it: variables belong to the workspace (weft env set NAME), and {{env.NAME}} refers to one": {"env", "vars", "variables", "secrets", "constants", "environment"},
		"write retry, such as retry: {maxElapsed: 1h}, or attempts in each component":                      {"retries", "retry", "attempts"},
		"remove it, and write timeout in each component, such as timeout: 90s":                             {"timeout", "timeoutms", "timeoutminutes", "timeoutseconds"},
		"remove it: a workflow file has no defaults; write the field in each component":                    {"defaults"},
		"remove it: the service numbers the versions":                                                      {"specversion", "apiversion", "dsl", "document"},
	}
	componentWords = words{
		"write module": {"type", "uses", "kind", "action", "call", "operator", "resource", "task", "component", "plugin"},
		"write after, with the names of the components that come first": {"dependson", "depends", "needs", "runafter", "requires", "dependencies", "previous"},
		"write after in the component that follows":                     {"next", "then", "transition", "to", "onsuccess", "edges"},
		"write input":  {"with", "inputs", "args", "arguments", "params", "parameters", "data", "inputdata", "payload", "parametersmapping"},
		"write config": {"settings", "options", "configuration", "properties", "props"},
		"write retry, such as retry: {maxElapsed: 1h}, or attempts, from 1 to 3":                    {"retry", "retries", "maxattempts", "maxretries", "tries", "retrypolicy", "retryonfail", "retrycount"},
		"write timeout with a unit, such as timeout: 90s":                                           {"timeoutminutes", "timeoutseconds", "timeoutinseconds", "heartbeatseconds", "timeouts"},
		"write onFailure: continue":                                                                 {"continueonerror", "continueonfail", "ignoreerrors", "ignoreerror", "failfast", "allowfailure"},
		"write a component that has after: COMPONENT.error":                                         {"catch", "onerror", "onerrors", "errorhandler", "rescue", "except"},
		"write a component with the module IF or SWITCH before it, and after: COMPONENT.then":       {"if", "when", "condition", "choices", "unless", "switch"},
		"write a component with the module FOR_EACH before it, and after: COMPONENT.each":           {"foreach", "loop", "withitems", "matrix", "strategy", "map", "iterator", "items", "each"},
		"write a component with the module REPEAT before it, after: COMPONENT.each, and a CONTINUE": {"while", "until", "dowhile", "repeat", "repeatuntil"},
		"write a component with the module TRANSFORM and the expression in config":                  {"run", "script", "code", "expression", "expr", "set", "jscode"},
		"write name": {"title", "label", "displayname", "description", "comment"},
		"remove it: the last components of a workflow end it":                              {"end", "terminal"},
		"remove it: {{env.NAME}} in input or config refers to a variable of the workspace": {"env", "credentials", "secrets", "vars", "variables"},
		"remove it: other components refer to outputs, such as {{load.body.id}}":           {"output", "outputs", "register", "result", "resultpath", "resultselector", "outputpath", "assign", "export"},
		"remove it, or remove the whole component":                                         {"disabled", "enabled", "skip"},
		"write it in config, as apiUrl":                                                    {"url", "uri", "apiurl", "endpoint"},
		"write it in config":                                                               {"method", "cases", "delay", "duration", "expectstatus", "concurrency"},
		"write it in input":                                                                {"body", "headers", "query", "querystring"},
	}
)

// words are the words of other tools, by what to do about them.
type words map[string][]string

// advice returns what to write instead of a field.
func (w words) advice(name string) string {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for advice, all := range w {
		for _, one := range all {
			if one == name {
				return advice
			}
		}
	}
	return ""
}

// The fields of a file.
var (
	rootFields      = []string{"format", "name", "key", "description", "status", "inputSchema", "retry", "deadline", "deadlineMs", "triggers", "components", "sequenceEdges", "dataConnections"}
	componentFields = []string{"id", "module", "name", "after", "config", "input", "attempts", "retry", "timeout", "timeoutMs", "onFailure", "position"}
)

// foreign reports the fields of a workflow and of its components that are words of other tools. It
// renames or removes them, so that the rest of the file is checked as it was meant.
func (r *reading) foreign(root *yaml.Node) {
	r.foreignIn(root, "", rootWords, rootFields)
	components := field(root, "components")
	if components == nil {
		return
	}
	for i, one := range components.Content {
		switch {
		case components.Kind == yaml.SequenceNode:
			r.foreignIn(one, "components."+word(one, "id"), componentWords, componentFields)
		case i%2 == 1:
			r.foreignIn(one, "components."+components.Content[i-1].Value, componentWords, componentFields)
		}
	}
}

func (r *reading) foreignIn(object *yaml.Node, where string, table words, own []string) {
	if object.Kind != yaml.MappingNode {
		return
	}
	var kept []*yaml.Node
	for i := 0; i < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		advice := ""
		if !slices.Contains(own, key.Value) {
			advice = table.advice(key.Value)
			if at := slices.IndexFunc(own, func(name string) bool { return strings.EqualFold(name, key.Value) }); at >= 0 {
				advice = "write " + own[at]
			}
		}
		if advice != "" {
			r.fault(key, strings.TrimPrefix(where+"."+key.Value, "."), "this is not a field here: %s", advice)
			name, _, _ := strings.Cut(strings.TrimPrefix(advice, "write "), ",")
			if !slices.Contains(own, name) || field(object, name) != nil {
				continue
			}
			r.written[key] = key.Value
			key.Value = name
		}
		kept = append(kept, key, value)
	}
	object.Content = kept
}
