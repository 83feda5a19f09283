package gen

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// kept are the keywords that must stay as they were promised, wherever they stand. oasdiff does
// not know what they mean.
var kept = []string{"x-secret", "x-role", "x-sign-in", "x-null-removes", "x-unrestricted-key"}

// brokenPromises returns what breaks clients of a document and what oasdiff does not compare:
// servers, security schemes, costs, the known values of open sets, and our keywords.
func brokenPromises(before, after object) []string {
	var found []string
	for _, server := range list(before["servers"]) {
		url := members(server)["url"]
		if !slices.ContainsFunc(list(after["servers"]), func(other any) bool { return members(other)["url"] == url }) {
			found = append(found, fmt.Sprintf("/servers: %v was removed", url))
		}
	}
	now := members(members(after["components"])["securitySchemes"])
	for name, scheme := range members(members(before["components"])["securitySchemes"]) {
		if now[name] == nil {
			found = append(found, fmt.Sprintf("/components/securitySchemes/%s was removed", name))
			continue
		}
		for _, field := range []string{"type", "scheme", "in", "name", "bearerFormat"} {
			if members(now[name])[field] != members(scheme)[field] {
				found = append(found, fmt.Sprintf("/components/securitySchemes/%s/%s was changed", name, field))
			}
		}
	}
	found = append(found, brokenKeywords(before, after, "")...)
	slices.Sort(found)
	return found
}

// brokenKeywords compares the keywords of what is in both documents. What is in one only is
// new, or oasdiff reports it.
func brokenKeywords(before, after any, at string) (found []string) {
	if _, both := before.([]any); both {
		then, now := list(before), list(after)
		for i := range min(len(then), len(now)) {
			found = append(found, brokenKeywords(then[i], now[i], fmt.Sprintf("%s/%d", at, i))...)
		}
		return found
	}
	then, now := members(before), members(after)
	if then == nil || now == nil {
		return nil
	}
	for _, keyword := range kept {
		if keyword == "x-role" && then[keyword] == nil && then["security"] == nil {
			continue // a signed operation also accepts people
		}
		if !reflect.DeepEqual(then[keyword], now[keyword]) {
			found = append(found, fmt.Sprintf("%s/%s was changed", at, keyword))
		}
	}
	if was, is := cost(then), cost(now); is > was {
		found = append(found, fmt.Sprintf("%s/x-rate-limit-cost was raised", at))
	}
	for _, value := range list(then["x-extensible-enum"]) {
		if !slices.Contains(list(now["x-extensible-enum"]), value) {
			found = append(found, fmt.Sprintf("%s/x-extensible-enum: %v was removed", at, value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(then)) {
		if name != "example" && name != "examples" {
			found = append(found, brokenKeywords(then[name], now[name], at+"/"+name)...)
		}
	}
	return found
}

func cost(of object) float64 {
	value, _ := of["x-rate-limit-cost"].(float64)
	return value
}

func members(value any) object {
	object, _ := value.(object)
	return object
}

func list(value any) []any {
	list, _ := value.([]any)
	return list
}
