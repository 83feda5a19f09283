package component

import (
	"slices"
	"strings"
)

// The modules of control flow that other packages name. The engine of runs executes these itself.
const (
	OnAPICalled     = "ON_API_CALLED"
	OnSchedule      = "ON_SCHEDULE"
	OnWebhook       = "ON_WEBHOOK"
	If              = "IF"
	Switch          = "SWITCH"
	ForEach         = "FOR_EACH"
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
