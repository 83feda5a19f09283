package contract_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// wrongLinks returns the faults of the document's links: unknown targets, parameters and
// expressions, and missing path parameters of the target.
func (d document) wrongLinks() []string {
	var found []string
	for path, item := range d.sorted(d.root["paths"]) {
		for method, operation := range d.sorted(item) {
			for status, answer := range d.sorted(operation["responses"]) {
				for name, link := range d.sorted(answer["links"]) {
					for _, fault := range d.faults(operation, answer, link) {
						found = append(found, fmt.Sprintf("%s %s %s: link %s: %s", path, method, status, name, fault))
					}
				}
			}
		}
	}
	return found
}

func (d document) faults(from, answer, link object) []string {
	id, _ := link["operationId"].(string)
	path, to := d.operation(id)
	if to == nil {
		return []string{"there is no operation " + id}
	}
	var found []string
	given := under(link, "parameters")
	for name, expression := range given {
		if d.parameter(to, name) == nil {
			found = append(found, id+" takes no "+name)
		}
		if fault := d.unresolved(from, answer, expression.(string)); fault != "" {
			found = append(found, fault)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		name := strings.Trim(segment, "{}")
		// The caller chooses the name of a signal.
		if strings.HasPrefix(segment, "{") && given[name] == nil && name != "signal" {
			found = append(found, id+" does not get "+name)
		}
	}
	return found
}

func (d document) parameter(operation object, name string) object {
	parameters, _ := operation["parameters"].([]any)
	for _, parameter := range parameters {
		if p := d.resolve(parameter); p["name"] == name {
			return p
		}
	}
	return nil
}

// unresolved returns the fault of a runtime expression, or "" if it resolves.
func (d document) unresolved(from, answer object, expression string) string {
	if name, ok := strings.CutPrefix(expression, "$request.path."); ok {
		if p := d.parameter(from, name); p == nil || p["in"] != "path" {
			return "the request has no " + name
		}
		return ""
	}
	name, ok := strings.CutPrefix(expression, "$response.body#/")
	schema := d.resolve(under(under(under(answer, "content"), "application/json"), "schema"))
	oneOf, _ := schema["oneOf"].([]any)
	anyOf, _ := schema["anyOf"].([]any)
	for _, one := range slices.Concat(oneOf, anyOf, []any{schema}) {
		if ok && under(d.resolve(one), "properties")[name] != nil {
			return ""
		}
	}
	return expression + " leads nowhere"
}

func TestLinksResolve(t *testing.T) {
	for _, fault := range read(t).wrongLinks() {
		t.Error(fault)
	}
}

func TestWrongLinksFindsBrokenLinks(t *testing.T) {
	const links = "/paths/~1v1~1sdk~1components/post/responses/200/links"
	for want, removal := range map[string]func(status object){
		"there is no operation getNothing": func(link object) { link["operationId"] = "getNothing" },
		"getComponentExecution takes no runId": func(link object) {
			link["parameters"] = object{"executionId": "$response.body#/id", "runId": "$response.body#/id"}
		},
		"getComponentExecution does not get executionId": func(link object) { delete(link, "parameters") },
		"$response.body#/nothing leads nowhere":          func(link object) { link["parameters"] = object{"executionId": "$response.body#/nothing"} },
		"the request has no executionId":                 func(link object) { link["parameters"] = object{"executionId": "$request.path.executionId"} },
	} {
		d := read(t)
		removal(d.at(links + "/status").(object))
		if found := d.wrongLinks(); !slices.ContainsFunc(found, func(fault string) bool { return strings.HasSuffix(fault, "link status: "+want) }) {
			t.Errorf("want %q in %q", want, found)
		}
	}
}

// The operation that creates a resource links to all operations on it, and so do the operations
// that return it.
func TestOperationsLinkToFollowUps(t *testing.T) {
	d := read(t)
	for id, want := range map[string][]string{
		"executeComponent":         {"getComponentExecution", "streamComponentExecution", "replayComponentCallback", "listCallbackAttempts", "getComponent"},
		"getComponentExecution":    {"streamComponentExecution", "replayComponentCallback", "listCallbackAttempts"},
		"cancelComponentExecution": {"getComponentExecution", "streamComponentExecution"},
		"streamComponentExecution": {"getComponentExecution"},
		"createWorkflow":           {"getWorkflow", "triggerWorkflow", "quoteWorkflow"},
		"getWorkflow":              {"triggerWorkflow", "quoteWorkflow", "replaceWorkflow"},
		"triggerWorkflow":          {"getWorkflowRun", "streamWorkflowRun", "cancelWorkflowRun", "listRunStages", "listRunEvents", "getWorkflow"},
		"getWorkflowRun":           {"streamWorkflowRun", "cancelWorkflowRun", "sendRunSignal", "listRunStages", "listRunEvents", "replayRunCallback", "listRunCallbackAttempts", "getWorkflow"},
		"cancelWorkflowRun":        {"getWorkflowRun", "streamWorkflowRun"},
		"createSchedule":           {"getSchedule", "getWorkflow"},
		"createHook":               {"getHook", "challengeHook", "receiveHook", "getWorkflow"},
		"receiveHook":              {"getWorkflowRun"},
		"createSession":            {"getCurrentSession", "deleteCurrentSession", "listWorkspaces"},
		"createApiKey":             {"rotateApiKey", "revokeApiKey"},
		"createInvitation":         {"acceptInvitation", "revokeInvitation"},
	} {
		_, operation := d.operation(id)
		var have []string
		for _, link := range d.sorted(under(under(under(operation, "responses"), "200"), "links")) {
			have = append(have, link["operationId"].(string))
		}
		for _, target := range want {
			if !slices.Contains(have, target) {
				t.Errorf("no link leads from %s to %s", id, target)
			}
		}
	}
}

func TestEveryPageLinksToTheNext(t *testing.T) {
	d, pages := read(t), 0
	for _, operation := range d.operations() {
		answer := d.resolve(under(operation.node, "responses")["200"])
		schema := d.resolve(under(under(under(answer, "content"), "application/json"), "schema"))
		if under(schema, "properties")["nextCursor"] == nil {
			continue
		}
		pages++
		next := d.resolve(under(answer, "links")["next"])
		if next["operationId"] != operation.node["operationId"] || under(next, "parameters")["cursor"] != "$response.body#/nextCursor" {
			t.Errorf("%s: links to the next page: got %v", operation.at, slices.Sorted(maps.Keys(next)))
		}
	}
	if pages < 13 {
		t.Errorf("found only %d lists", pages)
	}
}
