package conformance

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// watchful lists fast cases that together see every field.
var watchful = []string{
	"workflows/200 validated without being saved", "workflows/200, 400, 409 the key of a workflow",
	"execute/200 without waitForMs the record is CREATED", "execute/200 with waitForMs the record is COMPLETED",
	"execute/200 a failure comes inline", "execute/200 a call that was cut off has an unknown outcome", "execute/422 all faults against the module's schema at once",
	"execute/400 unknown fields under handling=strict", "request/200 every operation reports what it ignored",
	"answers/200 every operation under handling=strict",
	"get/200 a completed execution", "get/200 a failed execution", "retry/the record says when the next attempt starts", "retry/the stage says when the next attempt starts",
	"cancel/200 an execution that waits, twice, with its callback", "cancel/200 a POST on its way has an unknown outcome",
	"cancel/400, 404, 409 what cannot be canceled, 200 what is final",
	"deadline/200 shown and changed in schedules and hooks",
	"runs/callback shown and changed in schedules and hooks",
	"SS01 a stream from EXECUTING to COMPLETED", "SS01 a stream of what is COMPLETED already", "SS01 a stream of what is FAILED",
	"CB22 a signed callback of COMPLETED", "callback/an unsigned one of FAILED", "callback/traceparent is passed on",
	"replay/200 delivers what had failed", "replay/200 the record of a delivery that failed", "replay/200 the record of a failed execution",
	"EX15 a repeat renders the present record", "list/200 executions of every kind",
	"auth/401 timestamp_expired and timestamp_in_future", "AU08 one key with another's secret",
	"catalogue/200 every component with its schemas", "catalogue/200 in the dialect of generators", "health/200",
	"spec/200 in both forms, and equal", "unchanged/304 documents that the client has",
	"signing/200 the message of every vector", "signing/200 what a wrong signer did", "signing/400, 406, 413, 415 the form of a check",
	"MT09 audit/200 who did what, newest first",
	"limits/200 every signed operation counts as the contract says",
	"limits/200 every operation of people on a workspace counts as 1, and what takes rights away as 0",
	"credits/402 what would have been needed", "credits/402 a workspace that has stored what it may", "credits/200 the workspace of the key", "credits/200 totalUsage is what the statement says", "credits/200 the statement by pages and as CSV",
	"people/200 signing in, being known, signing out", "people/200 the workspaces of a person",
	"members/200 inviting, joining, changing, removing", "keys/200 making, listing, rotating, revoking",
	"workflows/200 what is stored, read and listed", "workflows/200 every save makes a version that stays", "workflows/200 out as a file and in again",
	"workflows/200 archived and brought back", "workflows/200, 422 what can never work, and what is suspicious", "EX15 workflows/200 a repeat creates nothing", "workflows/200 a component is merged into the next version",
	"runs/200 a record with every kind of stage", "runs/200 triggers of every kind", "EX15 runs/200 a repeated trigger begins nothing", "runs/200 quotes",
	"runs/callback not of a rerun or a child run",
	"runs/callback a signed one of COMPLETED", "runs/callback an unsigned one of FAILED", "runs/callback one of CANCELED",
	"runs/callback one that failed is shown, listed and replayed", "runs/404, 409 callbacks that cannot be replayed",
	"runs/200 the list of runs", "runs/200 stages left out, and by pages", "runs/200 the log of a run, by pages and after an event",
	"SS01 runs/a stream from the start to COMPLETED", "SS01 runs/a stream of what is FAILED already",
	"changes/200 runs and executions that change, by ID and status",
	"environment/200 set, listed, deleted by a key", "environment/200 set, listed, deleted by a member",
	"environment/200 an access token, set, listed, deleted by a key", "environment/200 an access token, set, listed, deleted by a member",
	"schedules/200 made, read, listed, replaced, deleted", "EX15 schedules/200 a repeat creates nothing",
	"hooks/200 made, read, listed, replaced, deleted", "EX15 hooks/200 a repeat creates nothing", "hooks/200 deliveries begin runs, each once",
	"hooks/200 every setting of a hook is shown", "hooks/200, 500 a hook that responds",
	"runs/200 a stage that was cut off has an unknown outcome",
	"runs/200 signals early, late and twice", "runs/200, 400 a cancel again, of what is over, and in other forms",
}

// place is the target of a mutation: one field or header of one kind of response.
type place struct{ surface, field string }

// barren lists places that are always missing or null in these responses, so that removing them
// would change nothing. Instead, the mutation adds a value of the documented form, and the cases
// must detect that value.
var barren = map[place]nothing{
	{"callback", "/callback/lastError"}: { // the body is frozen before the first attempt
		beside: "/callback/lastError", put: `{"class":"status","message":"The receiver answered 502.","httpStatus":502}`,
	},
	{"run callback", "/callback/lastError"}: {
		beside: "/callback/lastError", put: `{"class":"status","message":"The receiver answered 502.","httpStatus":502}`,
	},
	{"run callback", "/runStages"}: { // a callback leaves the stages out
		beside: "/runStages", put: `[` + stageOfNobody + `]`,
	},
	{"createApiKey", "/replaces"}: { // only a rotation replaces a key
		beside: "/id", put: `{"id":"0193f1c0-0000-7000-8000-000000000000","expiresAt":"2026-11-22T10:15:30.120Z"}`,
	},
	{"listWorkflowRuns", "/data/*/runStages"}: { // lists leave the stages out
		beside: "/data/*/runStages", put: `[` + stageOfNobody + `]`,
	},
	// No component has a required input that may be null or that has required fields.
	{"listSystemComponents", "/*/inputs/parameters/*/schema/nullable"}: {beside: "/*/inputs/parameters/*/schema", put: `true`},
	{"listSystemComponents", "/*/inputs/parameters/*/schema/required"}: {beside: "/*/inputs/parameters/*/schema", put: `["x"]`},
	// Warnings come with saves only.
	{"getWorkflow", "/warnings"}:      {beside: "/id", put: warned},
	{"archiveWorkflow", "/warnings"}:  {beside: "/id", put: warned},
	{"getHook", "/warnings"}:          {beside: "/id", put: short},
	{"deleteHook", "/warnings"}:       {beside: "/id", put: short},
	{"listHooks", "/data/*/warnings"}: {beside: "/data/*/id", put: short},
	{"listHooks", "/data/*/refusals"}: {beside: "/data/*/id", put: `[{"at":"2026-11-21T10:15:30.120Z","reason":"invalid_signature","count":1}]`}, // only in the single hook
	// No case waits for a clock change.
	{"createSchedule", "/lastClockChange"}:       {beside: "/lastClockChange", put: clockChange},
	{"getSchedule", "/lastClockChange"}:          {beside: "/lastClockChange", put: clockChange},
	{"replaceSchedule", "/lastClockChange"}:      {beside: "/lastClockChange", put: clockChange},
	{"deleteSchedule", "/lastClockChange"}:       {beside: "/lastClockChange", put: clockChange},
	{"listSchedules", "/data/*/lastClockChange"}: {beside: "/data/*/lastClockChange", put: clockChange},
	// No run of a new schedule has completed. Lists leave the input and the result out.
	{"createSchedule", "/previous"}:            {beside: "/previous", put: earlierResult},
	{"listSchedules", "/data/*/input"}:         {beside: "/data/*/id", put: `{"customer":"acme"}`},
	{"listSchedules", "/data/*/previous"}:      {beside: "/data/*/id", put: earlierResult},
	{"createSchedule", "/sealedProblem"}:       {beside: "/id", put: unopened},
	{"getSchedule", "/sealedProblem"}:          {beside: "/id", put: unopened},
	{"replaceSchedule", "/sealedProblem"}:      {beside: "/id", put: unopened},
	{"deleteSchedule", "/sealedProblem"}:       {beside: "/id", put: unopened},
	{"listSchedules", "/data/*/sealedProblem"}: {beside: "/data/*/id", put: unopened},
	// These executions are final.
	{"replayComponentCallback", "/nextAttemptAt"}:  {beside: "/id", put: `"2026-11-22T10:15:30.120Z"`},
	{"cancelComponentExecution", "/nextAttemptAt"}: {beside: "/id", put: `"2026-11-22T10:15:30.120Z"`},
	{"callback", "/nextAttemptAt"}:                 {beside: "/id", put: `"2026-11-22T10:15:30.120Z"`},
	// A stage that waits is in the record of its run; these operations return the same record.
	{"cancelWorkflowRun", "/runStages/*/nextAttemptAt"}:   {beside: "/runStages/*/id", put: `"2026-11-22T10:15:30.120Z"`},
	{"triggerWorkflow", "/run/runStages/*/nextAttemptAt"}: {beside: "/run/runStages/*/id", put: `"2026-11-22T10:15:30.120Z"`},
	// A commit in doubt cannot be caused from outside.
	{"problem", "/executionId"}: {beside: "/code", put: `"0193f1c0-0000-7000-8000-000000000000"`},
	{"problem", "/runId"}:       {beside: "/code", put: `"0193f1c0-0000-7000-8000-000000000000"`},
	// It requires the loss of a key of the service, which cannot be caused from outside.
	{"listComponentExecutions", "/data/*/outputProblem"}:  {beside: "/data/*/id", put: unopened},
	{"executeComponent", "/outputProblem"}:                {beside: "/id", put: unopened},
	{"getComponentExecution", "/outputProblem"}:           {beside: "/id", put: unopened},
	{"cancelComponentExecution", "/outputProblem"}:        {beside: "/id", put: unopened},
	{"replayComponentCallback", "/outputProblem"}:         {beside: "/id", put: unopened},
	{"callback", "/outputProblem"}:                        {beside: "/id", put: unopened},
	{"run callback", "/outputProblem"}:                    {beside: "/id", put: unopened},
	{"getWorkflowRun", "/outputProblem"}:                  {beside: "/id", put: unopened},
	{"getWorkflowRun", "/runStages/*/outputProblem"}:      {beside: "/runStages/*/id", put: unopened},
	{"cancelWorkflowRun", "/outputProblem"}:               {beside: "/id", put: unopened},
	{"cancelWorkflowRun", "/runStages/*/outputProblem"}:   {beside: "/runStages/*/id", put: unopened},
	{"replayRunCallback", "/outputProblem"}:               {beside: "/id", put: unopened},
	{"replayRunCallback", "/runStages"}:                   {beside: "/runStages", put: `[` + stageOfNobody + `]`},
	{"triggerWorkflow", "/run/outputProblem"}:             {beside: "/run/id", put: unopened},
	{"triggerWorkflow", "/run/runStages/*/outputProblem"}: {beside: "/run/runStages/*/id", put: unopened},
	{"listWorkflowRuns", "/data/*/outputProblem"}:         {beside: "/data/*/id", put: unopened},
	{"listRunStages", "/data/*/outputProblem"}:            {beside: "/data/*/id", put: unopened},
}

const warned = `[{"code":"LOOP_WITHOUT_BODY","message":"The loop has no body.","pointer":"/components/1"}]`

const short = `[{"code":"SHORT_SECRET","message":"The secret has fewer than 32 bytes.","pointer":"/verification/secret"}]`

const clockChange = `{"at":"2027-03-28T01:00:00.000Z","kind":"skipped","localTime":"2027-03-28T02:30","count":1}`

const earlierResult = `{"scheduledAt":"2026-11-20T08:00:00.000Z","output":{"cursor":"4711"}}`

const unopened = `{"code":"INTERNAL_ERROR","message":"An output cannot be read here."}`

// nothing is the state of a place that is always missing or null.
type nothing struct {
	beside string // a field that exists where this value exists, or the value itself if it can be present without content
	put    string
}

// stageOfNobody is a stage in the documented form.
const stageOfNobody = `{"id":"0193f1c0-0000-7000-8000-000000000000","componentId":"a","module":"HASH","name":"a","iteration":[],"status":"COMPLETED",` +
	`"output":{},"error":null,"creditUsage":1,"executionAttempt":1,"executionEventId":null,"executionDispatchedAt":null,"startedAt":null,` +
	`"updatedAt":"2026-11-22T10:15:30.120Z","finishedAt":"2026-11-22T10:15:30.120Z"}`

// seeable reports whether a case can see a place.
func seeable(at place) bool {
	for empty := range barren {
		if empty.surface == at.surface && strings.HasPrefix(at.field, empty.field+"/") {
			return false
		}
	}
	return true
}

// mutation is one change to every response that has its place.
type mutation struct {
	place
	path  []string
	types []string
	drop  bool
	put   any // the value to add where no value is allowed
}

func (m mutation) String() string {
	action := "retype"
	switch {
	case m.put != nil:
		action = "put"
	case m.drop:
		action = "drop"
	}
	return action + " " + m.surface + " " + m.field
}

// witness returns the place that a case must see to detect the mutation.
func (m mutation) witness() place {
	if m.put != nil {
		return place{m.surface, barren[m.place].beside}
	}
	return m.place
}

// mutations returns all mutations for the document.
func mutations(spec *probe.Spec) []mutation {
	var all []mutation
	both := func(surface, field string, path, types []string) {
		m := mutation{place: place{surface, field}, path: path, types: types}
		all = append(all, m)
		m.drop = true
		all = append(all, m)
	}
	fields := func(surface string, list []probe.Field) {
		for _, f := range list {
			both(surface, "/"+strings.Join(f.Path, "/"), f.Path, f.Types)
		}
	}
	for operation, list := range spec.Answers() {
		fields(operation, list)
	}
	for operation, list := range spec.Events() {
		fields(operation+" event", list)
	}
	fields("problem", spec.Failures())
	for surface, of := range map[string]string{"callback": "executeComponent", "run callback": "triggerWorkflow"} {
		callback, headers := spec.Callback(of)
		fields(surface, callback)
		for _, name := range headers {
			both(surface+" header", http.CanonicalHeaderKey(name), nil, nil)
		}
	}
	for operation, names := range spec.Headers() {
		for _, name := range names {
			both(operation+" header", http.CanonicalHeaderKey(name), nil, nil)
		}
	}
	for _, name := range []string{"X-Request-Id", "Cache-Control", "X-Content-Type-Options"} {
		both("problem header", name, nil, nil)
	}
	// Only the presence of the challenge is promised, not its value.
	all = append(all, mutation{place: place{"problem header", "Www-Authenticate"}, drop: true})
	all = slices.DeleteFunc(all, func(m mutation) bool {
		empty, ok := barren[m.place]
		return m.field == "Content-Encoding" || // the proxy asks for what is not compressed
			m.surface == "receiveHook header" && m.field == "Weft-Ignored" || // a hook accepts any query and body
			!seeable(m.place) || ok && empty.beside != m.field
	})
	for at, empty := range barren {
		m := mutation{place: at, path: strings.Split(at.field[1:], "/")}
		if err := json.Unmarshal([]byte(empty.put), &m.put); err != nil {
			panic(err)
		}
		all = append(all, m)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

// chosen returns the mutations for this run: all in the soak test, otherwise every hundredth.
func chosen(all []mutation) []mutation {
	if soak() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m mutation) bool {
		return m.put == nil && crc32.ChecksumIEEE([]byte(m.String()))%100 != 0
	})
}

// sighting is a case that saw a place, and how long it took.
type sighting struct {
	run  Case
	took time.Duration
}

// casesAtOnce limits the concurrent cases. More would only queue at the service, which answers 503
// once a request has waited for 30 seconds.
const casesAtOnce = 4

// Every field and header in the document must be seen by some case. The test removes each of them,
// and changes each to a different type, one at a time. The cases must detect every change.
func TestMutationsAreCaught(t *testing.T) {
	behind := target(t)
	if deployment.pool == nil {
		t.Log("mutations are made against a deployment that was booted here")
		return
	}
	seen := sightings(t, behind)
	all := mutations(behind.Spec)
	var caught int
	var mu sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, casesAtOnce)
	for at := range seen {
		if !seeable(at) {
			t.Errorf("%v is seen after all", at)
		}
	}
	for _, m := range all {
		if len(seen[m.witness()]) == 0 {
			t.Errorf("%v: no case sees it", m)
		}
	}
	made := chosen(all)
	for _, m := range made {
		group.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			err := m.try(t, behind, seen[m.witness()])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%v: %v", m, err)
				return
			}
			caught++
		})
	}
	group.Wait()
	t.Logf("mutations: %d of %d made, %d caught", len(made), len(all), caught)
}

// sightings runs the watchful cases without a mutation. It returns the places that each case has
// seen, the fastest case first.
func sightings(t *testing.T, behind *probe.Target) map[place][]sighting {
	t.Helper()
	byName := map[string]Case{}
	for _, c := range Cases() {
		byName[c.Name] = c
	}
	seen := map[place][]sighting{}
	var mu sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, casesAtOnce)
	for _, name := range watchful {
		c, ok := byName[name]
		if !ok {
			t.Fatalf("there is no case %q", name)
		}
		p := &proxy{}
		through := p.target(t, behind)
		group.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			start := time.Now()
			if err := probe.Run(t.Context(), through, c.Run); err != nil {
				t.Errorf("without a mutation: %s: %v", c.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for at := range p.places {
				seen[at] = append(seen[at], sighting{c, time.Since(start)})
			}
		})
	}
	group.Wait()
	for _, list := range seen {
		slices.SortFunc(list, func(a, b sighting) int { return int(a.took - b.took) })
	}
	return seen
}

// try runs the cases that see the mutation's place until one fails. The error lists the outcome of
// each case. On a busy machine a case may fail before it reaches the place, or find nothing there.
// Such a case is run again.
func (m mutation) try(t *testing.T, behind *probe.Target, candidates []sighting) error {
	var ran []string
	for _, candidate := range candidates {
		for changed, again := 0, 0; changed == 0 && again < 3; again++ {
			p := &proxy{mutation: &m}
			err := probe.Run(t.Context(), p.target(t, behind), candidate.run.Run)
			p.mu.Lock()
			changed = p.changed
			p.mu.Unlock()
			if err != nil && changed > 0 {
				return nil
			}
			ran = append(ran, fmt.Sprintf("%s: changed in %d places, %v", candidate.run.Name, changed, err))
		}
	}
	return fmt.Errorf("none of %d cases noticed:\n%s", len(candidates), strings.Join(ran, "\n"))
}
