package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// gaps returns the operations, parameters, bodies, responses, headers, links, schemas and fields
// without a description. It also returns those that have a value but no example.
func (d document) gaps() []string {
	var found []string
	told := func(at string, node object, keys ...string) {
		for _, key := range keys {
			if text, _ := node[key].(string); strings.TrimSpace(text) == "" {
				found = append(found, at+" has no "+key)
			}
		}
	}
	shown := func(at string, node object) {
		if node["example"] == nil && len(under(node, "examples")) == 0 {
			found = append(found, at+" has no example")
		}
	}
	contents := func(at string, node object) {
		for media, content := range d.sorted(node["content"]) {
			shown(at+" "+media, content)
		}
	}
	for _, operation := range d.operations() {
		at, node := operation.at, operation.node
		told(at, node, "operationId", "summary", "description")
		parameters, _ := node["parameters"].([]any)
		for _, parameter := range parameters {
			p := d.resolve(parameter)
			here := fmt.Sprintf("%s: parameter %v", at, p["name"])
			told(here, p, "description")
			shown(here, p)
		}
		if body := d.resolve(node["requestBody"]); body != nil {
			told(at+": body", body, "description")
			contents(at+": body", body)
		}
		for status, answer := range d.sorted(node["responses"]) {
			here := at + ": answer " + status
			told(here, answer, "description")
			contents(here, answer)
			for name, header := range d.sorted(answer["headers"]) {
				told(here+": header "+name, header, "description")
				shown(here+": header "+name, header)
			}
			for name, link := range d.sorted(answer["links"]) {
				told(here+": link "+name, link, "description")
			}
		}
	}
	for name, schema := range d.sorted(d.at("/components/schemas")) {
		told(name, schema, "description")
		if !d.exemplified(schema, 0) {
			found = append(found, name+" has no example")
		}
		for field, node := range under(schema, "properties") {
			own := node.(object)
			if own["description"] == nil {
				told(name+"."+field, d.resolve(node), "description")
			}
			if !d.exemplified(own, 0) {
				found = append(found, name+"."+field+" has no example")
			}
		}
	}
	for name, scheme := range d.sorted(d.at("/components/securitySchemes")) {
		told(name, scheme, "description")
	}
	return append(found, d.codesWithoutExample()...)
}

// codesWithoutExample returns the error codes that no example shows.
func (d document) codesWithoutExample() []string {
	shown := map[any]bool{}
	for _, answer := range d.sorted(d.at("/components/responses")) {
		content := d.resolve(under(answer, "content")["application/problem+json"])
		if example, ok := content["example"].(object); ok {
			shown[example["code"]] = true
		}
		for _, example := range d.sorted(content["examples"]) {
			shown[under(example, "value")["code"]] = true
		}
	}
	var found []string
	codes, _ := d.at("/components/schemas/ErrorCode/x-extensible-enum").([]any)
	for _, code := range codes {
		if !shown[code] {
			found = append(found, fmt.Sprintf("error %v has no example", code))
		}
	}
	return found
}

// exemplified reports whether a schema has an example, or all schemas that it consists of have
// one.
func (d document) exemplified(node any, depth int) bool {
	schema, _ := node.(object)
	for _, key := range []string{"examples", "default", "const", "enum"} {
		if _, ok := schema[key]; ok {
			return true
		}
	}
	if _, ok := schema["$ref"]; ok && depth < 8 {
		return d.exemplified(d.resolve(node), depth+1)
	}
	if len(under(schema, "properties")) > 0 || schema["type"] == "null" {
		return true // gaps checks each field separately
	}
	if items, ok := schema["items"]; ok {
		return d.exemplified(items, depth+1)
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		if list, ok := schema[key].([]any); ok {
			return !slices.ContainsFunc(list, func(one any) bool { return !d.exemplified(one, depth+1) })
		}
	}
	return false
}

func TestDocumentHasAllDescriptionsAndExamples(t *testing.T) {
	d := read(t)
	for _, gap := range d.gaps() {
		t.Error(gap)
	}
	if n := len(d.operations()); n < 68 {
		t.Errorf("checked only %d operations", n)
	}
}

func TestGapsFindsMissingDescriptions(t *testing.T) {
	const execute, schemas = "/paths/~1v1~1sdk~1components/post", "/components/schemas/"
	for want, removal := range map[string]struct{ at, member string }{
		"/v1/sdk/components post has no summary":                                      {execute, "summary"},
		"/v1/sdk/components post has no description":                                  {execute, "description"},
		"/v1/sdk/components post: parameter Idempotency-Key has no description":       {"/components/parameters/IdempotencyKey", "description"},
		"/v1/sdk/components post: parameter Idempotency-Key has no example":           {"/components/parameters/IdempotencyKey", "example"},
		"/v1/sdk/components post: body has no description":                            {execute + "/requestBody", "description"},
		"/v1/sdk/components post: body application/json has no example":               {execute + "/requestBody/content/application~1json", "examples"},
		"/v1/sdk/components post: answer 200 has no description":                      {execute + "/responses/200", "description"},
		"/v1/sdk/components post: answer 200 application/json has no example":         {execute + "/responses/200/content/application~1json", "examples"},
		"/v1/sdk/components post: answer 429 application/problem+json has no example": {"/components/responses/TooManyRequests/content/application~1problem+json", "examples"},
		"/v1/sdk/components post: answer 200: header RateLimit has no description":    {"/components/headers/RateLimit", "description"},
		"/v1/sdk/components post: answer 200: header RateLimit has no example":        {"/components/headers/RateLimit", "example"},
		"/v1/sdk/components post: answer 200: link status has no description":         {execute + "/responses/200/links/status", "description"},
		"webhook componentExecutionFinished post has no description":                  {"/webhooks/componentExecutionFinished/post", "description"},
		"Problem has no description":                                                  {schemas + "Problem", "description"},
		"Problem.title has no description":                                            {schemas + "Problem/properties/title", "description"},
		"Problem.title has no example":                                                {schemas + "Problem/properties/title", "examples"},
		"ApiKey has no description":                                                   {"/components/securitySchemes/ApiKey", "description"},
		"error EXECUTION_NOT_FINISHED has no example":                                 {"/components/responses/ReplayConflict/content/application~1problem+json/examples", "notFinished"},
	} {
		d := read(t)
		node, _ := d.at(removal.at).(object)
		if node[removal.member] == nil {
			t.Errorf("%s has no %s to remove", removal.at, removal.member)
			continue
		}
		delete(node, removal.member)
		if gaps := d.gaps(); !slices.Contains(gaps, want) {
			t.Errorf("after removing %s of %s: want %q in %q", removal.member, removal.at, want, gaps)
		}
	}
}

// The chapters (x-tagGroups) contain all tags, in the order of the tags.
func TestTagsAreDescribedUsedAndInChapters(t *testing.T) {
	d := read(t)
	var tags, chapters, used []string
	for _, node := range d.root["tags"].([]any) {
		tag := node.(object)
		tags = append(tags, tag["name"].(string))
		if text, _ := tag["description"].(string); len(text) < 40 {
			t.Errorf("tag %v has the description %q", tag["name"], text)
		}
	}
	for _, node := range d.root["x-tagGroups"].([]any) {
		for _, name := range node.(object)["tags"].([]any) {
			chapters = append(chapters, name.(string))
		}
	}
	for _, operation := range d.operations() {
		own, _ := operation.node["tags"].([]any)
		if len(own) != 1 {
			t.Errorf("%s has the tags %v", operation.at, own)
			continue
		}
		used = append(used, own[0].(string))
	}
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(used, slices.Sorted(slices.Values(tags))) {
		t.Errorf("tags %v, used %v", tags, used)
	}
	if !slices.Equal(tags, chapters) {
		t.Errorf("tags %v, in chapters %v", tags, chapters)
	}
}
