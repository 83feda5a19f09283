package receiver

import (
	"cmp"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// Delivery describes one delivery. All fields that come from the sender are safe to print, except
// Body.
type Delivery struct {
	At          timestamp.Time   `json:"at"`          // when the body had been read
	ExecutionID string           `json:"executionId"` // "" if it names none; of a run: "" too
	RunID       string           `json:"runId,omitempty"`
	Module      string           `json:"module"`  // "" if it names none
	Status      status.Execution `json:"status"`  // "" if it names none
	Attempt     int              `json:"attempt"` // number of deliveries of this execution so far
	Repeat      Repeat           `json:"repeat"`
	Signature   Verdict          `json:"signature"`
	Reason      string           `json:"reason,omitempty"` // why the signature is not good
	Faults      []string         `json:"faults"`           // other problems, never null
	Forwarded   bool             `json:"forwarded"`
	Injected    *FailureKind     `json:"injected"` // nil: no failure was injected
	Answer      *int             `json:"answer"`   // nil: the connection was closed without a response
	GaveUp      bool             `json:"gaveUp"`   // the sender did not wait for the response
	DurationMs  int64            `json:"durationMs"`
	Bytes       int              `json:"bytes"`
	Body        []byte           `json:"-"` // as received

	refused bool // rejected because of its signature
}

// Failed reports whether the delivery had a problem that was not injected. A slow delivery is still
// answered, so its response decides unless the sender gave up.
func (d Delivery) Failed() bool {
	injected := d.Injected != nil
	switch {
	case d.refused || len(d.Faults) > 0:
		return true
	case injected && (*d.Injected != Slow || d.GaveUp):
		return false
	}
	return !d.accepted()
}

// accepted reports whether the receiver answered with a 2xx, after which the sender should not
// deliver again.
func (d Delivery) accepted() bool { return d.Answer != nil && *d.Answer/100 == 2 }

// setResponse records the response. ctx is done when the sender disconnects.
func (d *Delivery) setResponse(ctx context.Context, how time.Duration, out answer) {
	d.DurationMs = how.Milliseconds()
	d.GaveUp = ctx.Err() != nil
	if out.status != 0 && !d.GaveUp {
		d.Answer = &out.status
	}
}

var moduleForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// read parses a delivery and records what is wrong with it by contract 6.3.
func read(header http.Header, body []byte) Delivery {
	d := Delivery{Body: body, Bytes: len(body), Faults: []string{}}
	fault := func(wrong bool, what string) {
		if wrong {
			d.Faults = append(d.Faults, what)
		}
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	fault(err != nil || kind != "application/json", "Content-Type is not application/json")

	name, what, shown := "X-Svc-Execution-Id", "execution", &d.ExecutionID
	if header.Get("X-Svc-Run-Id") != "" {
		name, what, shown = "X-Svc-Run-Id", "run", &d.RunID
	}
	named := header.Values(name)
	headerID := ""
	if len(named) == 1 && isID(named[0]) {
		headerID = named[0]
	}
	fault(headerID == "", name+" is not "+article(what)+" ID")

	var record struct{ ID, Module, Status string }
	if strictjson.CheckObject(body) != nil || json.Unmarshal(body, &record) != nil {
		*shown = headerID
		fault(true, "the body is not "+article(what)+" record")
		return d
	}
	if isID(record.ID) {
		*shown = record.ID
		fault(headerID != "" && headerID != record.ID, name+" differs from the ID in the body")
	} else {
		*shown = headerID
		fault(true, "the body's id is not "+article(what)+" ID")
	}
	if len(record.Module) <= 64 && moduleForm.MatchString(record.Module) {
		d.Module = record.Module
	}
	fault(d.Module == "" && what == "execution", "the body names no module")
	if state := status.Execution(record.Status); state.Terminal() || what == "run" && status.Run(state).Terminal() {
		d.Status = state
	}
	fault(d.Status == "", "the body's status is not final")
	return d
}

func article(what string) string {
	if what == "execution" {
		return "an execution"
	}
	return "a " + what
}

// id returns the ID of the execution or run.
func (d Delivery) id() string { return cmp.Or(d.ExecutionID, d.RunID) }

// isID reports whether text is an ID in Weft's format.
func isID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}
