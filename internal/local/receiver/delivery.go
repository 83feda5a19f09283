package receiver

import (
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

// Delivery is what is told of one delivery. What stands in it of the sender is of a
// form that can be printed, but for Body.
type Delivery struct {
	At          timestamp.Time   `json:"at"`          // when its body was there
	ExecutionID string           `json:"executionId"` // "" when it names none
	Module      string           `json:"module"`      // likewise
	Status      status.Execution `json:"status"`      // likewise
	Attempt     int              `json:"attempt"`     // the number of deliveries of this execution so far
	Repeat      Repeat           `json:"repeat"`
	Signature   Verdict          `json:"signature"`
	Reason      string           `json:"reason,omitempty"` // why the signature is not good
	Faults      []string         `json:"faults"`           // what else is wrong, never null
	Forwarded   bool             `json:"forwarded"`
	Injected    *FailureKind     `json:"injected"` // nil: it did not fail on purpose
	Answer      *int             `json:"answer"`   // nil: the connection ended without one
	GaveUp      bool             `json:"gaveUp"`   // the sender did not wait for the answer
	DurationMs  int64            `json:"durationMs"`
	Bytes       int              `json:"bytes"`
	Body        []byte           `json:"-"` // as it came

	refused bool // for its signature
}

// Failed says whether a delivery went wrong by anything but the failure that was
// asked for.
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

// accepted says whether the sender was told that it arrived.
func (d Delivery) accepted() bool { return d.Answer != nil && *d.Answer/100 == 2 }

// took notes how it was answered. ctx ends when the sender goes away.
func (d *Delivery) took(ctx context.Context, how time.Duration, out answer) {
	d.DurationMs = how.Milliseconds()
	d.GaveUp = ctx.Err() != nil
	if out.status != 0 && !d.GaveUp {
		d.Answer = &out.status
	}
}

var moduleForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// read takes from a delivery what it says of itself, and what is wrong with that by
// contract 6.3.
func read(header http.Header, body []byte) Delivery {
	d := Delivery{Body: body, Bytes: len(body), Faults: []string{}}
	fault := func(wrong bool, what string) {
		if wrong {
			d.Faults = append(d.Faults, what)
		}
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	fault(err != nil || kind != "application/json", "Content-Type is not application/json")

	named := header.Values("X-Svc-Execution-Id")
	headerID := ""
	if len(named) == 1 && isID(named[0]) {
		headerID = named[0]
	}
	fault(headerID == "", "X-Svc-Execution-Id is not one id of an execution")

	var record struct{ ID, Module, Status string }
	if strictjson.CheckObject(body) != nil || json.Unmarshal(body, &record) != nil {
		d.ExecutionID = headerID
		fault(true, "the body is no execution record")
		return d
	}
	if isID(record.ID) {
		d.ExecutionID = record.ID
		fault(headerID != "" && headerID != record.ID, "X-Svc-Execution-Id names another execution than the body")
	} else {
		d.ExecutionID = headerID
		fault(true, "the body's id is not that of an execution")
	}
	if len(record.Module) <= 64 && moduleForm.MatchString(record.Module) {
		d.Module = record.Module
	}
	fault(d.Module == "", "the body names no module")
	if state := status.Execution(record.Status); state.Terminal() {
		d.Status = state
	}
	fault(d.Status == "", "the body's status is not a final one")
	return d
}

// isID says whether text is an id as Weft writes it.
func isID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}
