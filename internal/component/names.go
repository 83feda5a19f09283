package component

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/kit/spelling"
)

// The modules of control flow that other packages name. The engine of runs executes these itself.
const (
	OnAPICalled     = "ON_API_CALLED"
	OnSchedule      = "ON_SCHEDULE"
	OnWebhook       = "ON_WEBHOOK"
	If              = "IF"
	Switch          = "SWITCH"
	ForEach         = "FOR_EACH"
	RepeatLoop      = "REPEAT"
	Continue        = "CONTINUE"
	Transform       = "TRANSFORM"
	ArrayBuilder    = "ARRAY_BUILDER"
	StringConstant  = "STRING_CONSTANT"
	NumberConstant  = "NUMBER_CONSTANT"
	BooleanConstant = "BOOLEAN_CONSTANT"
	JSONConstant    = "JSON_CONSTANT"
	Delay           = "DELAY"
	WaitUntil       = "WAIT_UNTIL"
	WaitForSignal   = "WAIT_FOR_SIGNAL"
	RunWorkflow     = "RUN_WORKFLOW"
	Respond         = "RESPOND"
	Fail            = "FAIL"
)

// foreignModules are what other tools call modules, in capitals and without - _ . and spaces, by our
// module.
var foreignModules = map[string][]string{
	"API_CALL":    {"HTTPREQUEST", "HTTP", "HTTPCALL", "REST", "RESTAPI", "FETCH", "REQUEST", "CALLAPI", "CALLHTTP", "CURL", "AXIOS", "GRAPHQL"},
	Delay:         {"WAIT", "SLEEP", "PAUSE", "TIMER"},
	If:            {"CONDITION", "CHOICE", "BRANCH", "DECISION"},
	Switch:        {"CASE", "MATCH", "ROUTER"},
	ForEach:       {"FOREACH", "LOOP", "MAP", "SPLITINBATCHES", "LOOPOVERITEMS", "ITERATOR", "ITERATE", "EACH"},
	RepeatLoop:    {"WHILE", "DOWHILE", "UNTIL", "REPEATUNTIL", "POLL", "PAGINATE"},
	Continue:      {"NEXT", "BREAK", "NEXTITERATION"},
	Transform:     {"SET", "CODE", "FUNCTION", "SCRIPT", "JAVASCRIPT", "PYTHON", "EDITFIELDS", "ASSIGN", "EXPRESSION", "JQ"},
	OnWebhook:     {"WEBHOOK", "HOOK", "WEBHOOKTRIGGER"},
	OnSchedule:    {"SCHEDULE", "CRON", "SCHEDULETRIGGER", "SCHEDULED"},
	OnAPICalled:   {"TRIGGER", "START", "MANUAL", "MANUALTRIGGER", "WORKFLOWDISPATCH", "ENTRY", "BEGIN"},
	Respond:       {"RETURN", "RESPONSE", "OUTPUT", "SUCCEED", "RESPONDTOWEBHOOK", "REPLY", "ANSWER"},
	Fail:          {"THROW", "RAISE", "STOPANDERROR", "ERROR", "ABORT"},
	RunWorkflow:   {"EXECUTEWORKFLOW", "SUBWORKFLOW", "CALLWORKFLOW", "STARTEXECUTION", "WORKFLOW", "SUBFLOW"},
	WaitForSignal: {"WAITFORAPPROVAL", "APPROVAL", "WAITFOREVENT", "LISTEN", "CALLBACK", "WAITFORCALLBACK", "WAITFORTASKTOKEN"},
}

// ours returns the module that has a name of another tool, or "" if the registry has none.
func (r *Registry) ours(module string) string {
	name := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToUpper(module))
	for ours, theirs := range foreignModules {
		if _, has := r.entries[ours]; has && (slices.Contains(theirs, name) || strings.ReplaceAll(ours, "_", "") == name) {
			return ours
		}
	}
	return ""
}

// foreignFields are what other tools call fields of components, in small letters and without - and _, by
// our field.
var foreignFields = map[string][]string{
	"apiUrl":        {"url", "uri", "endpoint", "address", "href"},
	"method":        {"verb", "httpmethod"},
	"query":         {"params", "queryparams", "querystring", "queryparameters", "qs"},
	"body":          {"data", "json", "payload", "requestbody"},
	"headers":       {"header", "httpheaders"},
	"expectStatus":  {"status", "statuscode", "validstatus", "expectedstatus"},
	"timeoutMs":     {"timeout", "timeoutseconds"},
	"durationMs":    {"duration", "seconds", "delay", "ms", "amount", "wait"},
	"timestamp":     {"until", "time", "date", "datetime"},
	"expression":    {"condition", "code", "script", "formula", "if", "expr"},
	"cases":         {"rules", "choices", "conditions", "switch"},
	"items":         {"list", "array", "itemspath", "collection", "in"},
	"concurrency":   {"maxconcurrency", "batchsize", "parallelism", "maxparallel"},
	"onItemFailure": {"onerror", "continueonerror", "continueonfail"},
	"cron":          {"schedule", "expression", "cronexpression"},
	"timeZone":      {"tz", "zone", "timezone"},
	"workflowId":    {"id"},
	"workflow":      {"workflowkey", "workflowname", "key"},
	"inputSchema":   {"schema", "inputs", "parameters"},
	"message":       {"error", "reason", "text"},
}

// advice returns what to write instead of a field that the shape of a part doesn't declare, or "".
func (s shape) advice(name, part, otherPart string, other shape) string {
	if other.known[name] {
		return fmt.Sprintf("; %s belongs into %s", name, otherPart)
	}
	word := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, place := range []struct {
		name  string
		shape shape
	}{{part, s}, {otherPart, other}} {
		for _, ours := range slices.Sorted(maps.Keys(place.shape.known)) {
			if slices.Contains(foreignFields[ours], word) || strings.ToLower(ours) == word {
				return fmt.Sprintf("; write %s.%s", place.name, ours)
			}
		}
	}
	if near := spelling.Nearest(name, slices.Sorted(maps.Keys(s.known))); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
