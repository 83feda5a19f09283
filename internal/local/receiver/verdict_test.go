package receiver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDeliveryIsCheckedBySignatureAndTime(t *testing.T) {
	t.Parallel()
	record, now := body(one), time.Now()
	with := func(name string, values ...string) http.Header {
		h := signed(secret, one, record, now)
		h[name] = values
		if len(values) == 0 {
			delete(h, name)
		}
		return h
	}
	contractOnly := signed(secret, one, record, now)
	unsigned := signed(secret, one, record, now)
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		delete(contractOnly, name)
		delete(unsigned, name)
	}
	delete(unsigned, "X-Svc-Signature")
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		verdict Verdict
		reason  string
	}{
		"right":                 {signed(secret, one, record, now), record, Good, ""},
		"by the contract alone": {contractOnly, record, Good, ""},
		"unsigned":              {unsigned, record, Absent, "submitted without a callbackSecret"},
		"another secret":        {signed("other", one, record, now), record, Bad, "another secret, or over other bytes"},
		"another body":          {signed(secret, one, record, now), record + "\n", Bad, "another secret, or over other bytes"},
		"a secret with a line break": {
			signed(secret+"\n", one, record, now), record, Bad, "followed by a line break",
		},
		"another form":        {with("X-Svc-Signature", "sha256=00"), record, Bad, "does not start with hmac-sha256-v1="},
		"two signatures":      {with("X-Svc-Signature", "a", "b"), record, Bad, "2 times"},
		"signed long ago":     {signed(secret, one, record, now.Add(-10*time.Minute)), record, Bad, "Standard Webhooks: webhook-timestamp is too old: 10m"},
		"signed in future":    {signed(secret, one, record, now.Add(10*time.Minute)), record, Bad, "in the future"},
		"a replaced id":       {with("Webhook-Id", two), record, Bad, "Standard Webhooks: it was made with another secret"},
		"half of the headers": {with("Webhook-Timestamp"), record, Bad, "must each occur once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Secret: new(secret)})
			want := http.StatusUnauthorized
			if c.verdict == Good {
				want = http.StatusNoContent
			}
			if status, _ := s.post(t, c.header, c.body); status != want {
				t.Errorf("got status %d, want %d", status, want)
			}
			d := s.last(t)
			if d.Signature != c.verdict || !strings.Contains(d.Reason, c.reason) || (d.Reason == "") != (c.verdict == Good) {
				t.Errorf("unexpected verdict %s: %q", d.Signature, d.Reason)
			}
			if d.Failed() != (c.verdict != Good) || *d.Answer != want || strings.Contains(fmt.Sprint(d.Reason, d.Faults), secret) {
				t.Errorf("unexpected delivery %+v", d)
			}
		})
	}
}

func TestMistakenFormsOfTheSecretAreExplained(t *testing.T) {
	t.Parallel()
	record := body(one)
	for given, used := range map[string]string{
		" " + secret: secret,
		"whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)): secret,
	} {
		header := http.Header{"X-Svc-Signature": signed(used, one, record, time.Now())["X-Svc-Signature"]}
		if verdict, reason := judge(&given, header, []byte(record), time.Now()); verdict != Bad || !strings.Contains(reason, "it matches") {
			t.Errorf("secret %q: unexpected verdict %s: %s", given, verdict, reason)
		}
	}
}

func TestCallbacksOfRunsAreUnderstood(t *testing.T) {
	t.Parallel()
	for state, faults := range map[string][]string{"COMPLETED": {}, "FAILED": {}, "CANCELED": {}, "EXECUTING": {"the body's status is not final"}} {
		header := http.Header{"Content-Type": {"application/json"}, "X-Svc-Run-Id": {one}}
		d := read(header, []byte(`{"id":"`+one+`","workflowId":"`+two+`","status":"`+state+`"}`))
		if d.RunID != one || d.ExecutionID != "" || !slices.Equal(d.Faults, faults) {
			t.Errorf("%s: got run %q, execution %q and faults %q", state, d.RunID, d.ExecutionID, d.Faults)
		}
	}
}

func TestWithoutASecretSignaturesAreNotChecked(t *testing.T) {
	t.Parallel()
	record := body(one)
	s := start(t, Config{})
	for want, header := range map[Verdict]http.Header{
		Unchecked: signed("whatever", one, record, time.Now()),
		Absent:    {"Content-Type": {"application/json"}, "X-Svc-Execution-Id": {one}},
	} {
		if status, _ := s.post(t, header, record); status != http.StatusNoContent {
			t.Errorf("%s: got status %d", want, status)
		}
		if d := s.last(t); d.Signature != want || d.Failed() || d.ExecutionID != one || d.Module != "RANDOM_UUID" || d.Status != "COMPLETED" {
			t.Errorf("%s: unexpected delivery %+v", want, d)
		}
	}
}

func TestMalformedDeliveriesAreReported(t *testing.T) {
	t.Parallel()
	record := body(one)
	for name, c := range map[string]struct {
		id, kind, body string
		faults         []string
		shown          string // the ID in the report
	}{
		"right":            {one, "application/json; charset=utf-8", record, []string{}, one},
		"no id header":     {"", "application/json", record, []string{"X-Svc-Execution-Id is not an execution ID"}, one},
		"another id":       {two, "application/json", record, []string{"X-Svc-Execution-Id differs from the ID in the body"}, one},
		"an id of escapes": {"\x1b[2J", "application/json", record, []string{"X-Svc-Execution-Id is not an execution ID"}, one},
		"no JSON":          {one, "text/plain", "hello", []string{"Content-Type is not application/json", "the body is not an execution record"}, one},
		"an array":         {one, "application/json", "[]", []string{"the body is not an execution record"}, one},
		"an empty object": {one, "application/json", "{}", []string{
			"the body's id is not an execution ID", "the body names no module", "the body's status is not final",
		}, one},
		"not final": {one, "application/json", strings.Replace(record, "COMPLETED", "EXECUTING", 1), []string{"the body's status is not final"}, one},
		"a module of escapes": {
			one, "application/json", strings.Replace(record, "RANDOM_UUID", `\u001b[2J`, 1), []string{"the body names no module"}, one,
		},
		"nothing": {"", "", "", []string{
			"Content-Type is not application/json", "X-Svc-Execution-Id is not an execution ID", "the body is not an execution record",
		}, ""},
	} {
		header := http.Header{}
		for name, value := range map[string]string{"X-Svc-Execution-Id": c.id, "Content-Type": c.kind} {
			if value != "" {
				header.Set(name, value)
			}
		}
		d := read(header, []byte(c.body))
		if !slices.Equal(d.Faults, c.faults) || d.ExecutionID != c.shown || d.Bytes != len(c.body) {
			t.Errorf("%s: got faults %q and ID %q", name, d.Faults, d.ExecutionID)
		}
	}
}
