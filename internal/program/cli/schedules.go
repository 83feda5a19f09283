package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/calendar"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// schedulesPath is the path of schedules.
const schedulesPath = "/v1/sdk/schedules"

// schedulesCommand manages schedules, which start runs at given times.
type schedulesCommand struct {
	List   schedulesList   `cmd:"" help:"List the schedules, each with its next and last run."`
	Create schedulesCreate `cmd:"" help:"Create a schedule: start runs of a workflow at the times of a cron expression."`
	Get    oneSchedule     `cmd:"" help:"Print the record of a schedule."`
	Update schedulesUpdate `cmd:"" help:"Change the times, the overlap or the name of a schedule."`
	Pause  oneSchedule     `cmd:"" help:"Pause a schedule: start no runs until it is resumed."`
	Resume oneSchedule     `cmd:"" help:"Resume a schedule: start runs again, from its next time on."`
	Delete oneSchedule     `cmd:"" help:"Delete a schedule. Runs in progress continue."`
}

// schedulesList prints the schedules, newest first.
type schedulesList struct{ ofWorkflows }

func (c *schedulesList) Run(s caller) error {
	filter, err := c.filter(s)
	if err != nil {
		return err
	}
	return s.printList(schedulesPath, filter, c.size, view{
		columns: "NAME=name WORKFLOW=workflow STATUS=status CRON=cron ZONE=timeZone NEXT=nextAt|- LAST=lastAt|- OVERLAP=overlap SKIPPED=lastSkippedAt|- REASON=lastSkipReason ID=id",
		empty:   "No schedules. Create one: " + createSchedule,
	})
}

type schedulesCreate struct {
	target
	Workflow string `arg:"" help:"Key, name or ID of the workflow."`
	Cron     string `arg:"" optional:"" help:"Minute, hour, day of the month, month and day of the week, such as '0 9 * * MON-FRI', or @daily and the like. Default: the cron of the workflow's ON_SCHEDULE."`
	TimeZone string `name:"time-zone" placeholder:"ZONE" help:"Time zone of the expression, such as Europe/Berlin (UTC)."`
	Overlap  string `default:"" enum:",skip,queue,allow" placeholder:"POLICY" help:"What to do if the previous run has not finished at a scheduled time: skip, queue or allow (skip)."`
	Name     string `placeholder:"TEXT" help:"Display name."`
	Input    string `placeholder:"JSON" help:"Input of the runs: JSON, @FILE, or - for stdin."`
	startedRuns
	Paused         bool   `help:"Start no runs until the schedule is resumed."`
	IdempotencyKey string `name:"idempotency-key" placeholder:"TEXT" help:"A repeat with the same key creates nothing new."`
}

func (c *schedulesCreate) Run(s caller) error {
	request := api.CreateScheduleRequest{
		Cron: optional(c.Cron), TimeZone: optional(c.TimeZone), Name: optional(c.Name), Overlap: optional(api.Overlap(c.Overlap)), Status: paused(c.Paused),
	}
	var err error
	if request.Input, err = objectOrNull("--input", c.Input, s.stdin); err != nil {
		return err
	}
	if request.DeadlineMs, request.CallbackURL, request.CallbackSecret, err = c.settings(); err != nil {
		return err
	}
	if request.WorkflowID, err = s.workflow(c.Workflow); err != nil {
		return err
	}
	var made api.Schedule
	raw, err := s.exchange(http.MethodPost, schedulesPath, request, idempotencyHeader(c.IdempotencyKey), &made)
	if err != nil {
		return err
	}
	s.noteClockChange(made)
	return s.printSchedule(raw, nil)
}

// printSchedule prints a schedule.
func (s caller) printSchedule(raw []byte, err error) error {
	if err != nil {
		return err
	}
	return s.print(raw, func(out io.Writer) error {
		return s.drawNamed(out, raw, "Name=name", "Workflow=workflow", "Status=status", "Cron=cron", "Time zone=timeZone", "Next run=nextAt", "Last started=lastAt",
			"Last run=lastRunId", "Overlap=overlap", "Input=input", "Deadline in ms=deadlineMs", "Callback=callback.url", "Signed=callback.signed", "Previous=previous", "Last skipped=lastSkippedAt", "Reason=lastSkipReason", "ID=id")
	})
}

// noteClockChange prints how the next change of the clocks affects a schedule.
func (s *session) noteClockChange(one api.Schedule) {
	if change := one.NextClockChange; change != nil {
		s.note("clock change %s: %s %d, from %s", date(change.At), printable(string(change.Kind)), change.Count, printable(change.LocalTime))
	}
}

// oneSchedule is a command on one schedule.
type oneSchedule struct {
	target
	Schedule string `arg:"" help:"Name or ID of the schedule."`
}

// resolve sets the ID of the schedule.
func (c *oneSchedule) resolve(s caller) error {
	id, err := s.find(schedulesPath, "schedule", c.Schedule)
	c.Schedule = id.String()
	return err
}

func (c oneSchedule) path() string { return schedulesPath + "/" + c.Schedule }

// replace replaces what the request sets, and keeps the rest.
func (c oneSchedule) replace(s caller, set api.ReplaceScheduleRequest) error {
	one, raw, err := replace(s, c.path(), func(one api.Schedule) any {
		return api.ReplaceScheduleRequest{
			Cron: cmp.Or(set.Cron, one.Cron), TimeZone: cmp.Or(set.TimeZone, &one.TimeZone), Overlap: cmp.Or(set.Overlap, &one.Overlap),
			Name: cmp.Or(set.Name, &one.Name), Status: cmp.Or(set.Status, &one.Status),
			Input: set.Input, Previous: set.Previous, DeadlineMs: set.DeadlineMs, CallbackURL: set.CallbackURL, CallbackSecret: set.CallbackSecret,
		}
	})
	if err != nil {
		return err
	}
	s.noteClockChange(one)
	return s.printSchedule(raw, nil)
}

// Run does what the name of the command says.
func (c *oneSchedule) Run(s caller) error {
	switch s.command.Name {
	case "pause":
		return c.replace(s, api.ReplaceScheduleRequest{Status: new(api.TriggerStatusPAUSED)})
	case "resume":
		return c.replace(s, api.ReplaceScheduleRequest{Status: new(api.TriggerStatusACTIVE)})
	case "delete":
		return s.delete(c.path(), "%s is deleted. Runs that have started continue.", c.Schedule)
	}
	return s.printSchedule(s.get(c.path()))
}

type schedulesUpdate struct {
	oneSchedule
	Cron     string `placeholder:"CRON" help:"New cron expression, such as '0 9 * * MON-FRI'."`
	TimeZone string `name:"time-zone" placeholder:"ZONE" help:"New time zone of the expression, such as Europe/Berlin."`
	Overlap  string `default:"" enum:",skip,queue,allow" placeholder:"POLICY" help:"What to do if the previous run has not finished at a scheduled time: skip, queue or allow."`
	Name     string `placeholder:"TEXT" help:"New display name."`
	Input    string `placeholder:"JSON" help:"New input of the runs: JSON, @FILE, or - for stdin. null removes it."`
	Previous string `placeholder:"JSON" help:"What the next run gets as the result of the previous one, such as '{\"scheduledAt\": \"2026-01-31T08:00:00Z\", \"output\": {}}': JSON, @FILE, or - for stdin. null removes it, so that the next run starts from the beginning."`
	startedRuns
}

func (c *schedulesUpdate) Run(s caller) error {
	set := api.ReplaceScheduleRequest{Cron: c.Cron, TimeZone: optional(c.TimeZone), Overlap: optional(api.Overlap(c.Overlap)), Name: optional(c.Name)}
	if *c == (schedulesUpdate{oneSchedule: c.oneSchedule}) {
		return usage("nothing to update: set --cron, --time-zone, --overlap, --name, --input, --previous, --deadline, --callback-url or --callback-secret-file")
	}
	var err error
	if set.Input, err = objectOrNull("--input", c.Input, s.stdin); err != nil {
		return err
	}
	if set.Previous, err = objectOrNull("--previous", c.Previous, s.stdin); err != nil {
		return err
	}
	if set.DeadlineMs, set.CallbackURL, set.CallbackSecret, err = c.settings(); err != nil {
		return err
	}
	return c.replace(s, set)
}

// startedRuns has the flags for the runs that a schedule or a hook starts.
type startedRuns struct {
	Deadline    string `placeholder:"DURATION" help:"Time from its start within which a run must finish, such as 2h. Otherwise it is stopped. null removes it. Default: that of the workflow."`
	CallbackURL string `name:"callback-url" placeholder:"URL" help:"URL to which the record of each finished run is posted. null removes it, with the secret and the headers."`
	SecretFile  string `name:"callback-secret-file" placeholder:"FILE" help:"File with the key of the callbacks' signature. An empty file removes it."`
}

// settings returns the fields of a request. A field without its flag is nil.
func (c startedRuns) settings() (deadline, address, secret json.RawMessage, err error) {
	null := json.RawMessage("null")
	switch c.Deadline {
	case "":
	case "null":
		deadline = null
	default:
		milliseconds, err := calendar.ParseDuration(c.Deadline)
		if err != nil {
			return nil, nil, nil, usage("--deadline: %s", err)
		}
		deadline = json.RawMessage(strconv.FormatInt(milliseconds, 10))
	}
	switch c.CallbackURL {
	case "":
	case "null":
		address = null
	default:
		if address, err = strictjson.Encode(c.CallbackURL); err != nil {
			return nil, nil, nil, usage("--callback-url: %s", err)
		}
	}
	text, err := fileContent(c.SecretFile, "callback secret")
	if err != nil {
		return nil, nil, nil, err
	}
	switch {
	case text == nil:
	case *text == "":
		secret = null
	case !utf8.ValidString(*text):
		return nil, nil, nil, errors.New("the callback secret is not valid UTF-8")
	default:
		if secret, err = strictjson.Encode(*text); err != nil {
			return nil, nil, nil, errors.New("encode the callback secret") // the cause may contain the secret
		}
	}
	return deadline, address, secret, nil
}

// objectOrNull returns the value of a flag, or nil if it was not set.
func objectOrNull(flag, text string, stdin io.Reader) (json.RawMessage, error) {
	switch text {
	case "":
		return nil, nil
	case "null":
		return json.RawMessage(text), nil
	}
	return readObject(flag, text, stdin)
}

// optional returns the value of a flag, or nil if it was not set.
func optional[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// paused returns the status for a --paused flag.
func paused(yes bool) *api.TriggerStatus {
	if !yes {
		return nil
	}
	return new(api.TriggerStatusPAUSED)
}
