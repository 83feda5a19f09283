package conformance

// unbuilt are the operations of runs, until there are runs.
var unbuilt = []string{
	"triggerWorkflow", "quoteWorkflow", "listWorkflowRuns", "getWorkflowRun", "streamWorkflowRun", "listRunStages", "listRunEvents",
	"cancelWorkflowRun", "sendRunSignal",
}
