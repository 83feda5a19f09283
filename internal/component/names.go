package component

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
