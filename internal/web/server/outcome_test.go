package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestAnUnknownOutcomeIsRetryableOnlyWithAnIdempotencyKey(t *testing.T) {
	s := start(t)
	problem := schemaOf(t, "/components/schemas/Problem")
	id := uuid.MustParse(executionID)
	doubt := fmt.Errorf("accept: %w", &postgres.DoubtError{Err: errors.New("secret_table")})
	for name, c := range map[string]struct {
		err   error
		field string
	}{
		"an execution":  {postgres.OutcomeUnknown(doubt, "executionId", id), "executionId"},
		"a run":         {postgres.OutcomeUnknown(doubt, "runId", id), "runId"},
		"another write": {doubt, ""},
	} {
		for header, wait := range map[string]string{"Idempotency-Key: 1": "1", "X-None: 1": ""} {
			t.Run(name+", "+header, func(t *testing.T) {
				s.operations.execute = func() error { return c.err }
				got := s.do(t, "POST", executePath, `{"module":"A","input":{},"config":{}}`, header)
				if got.status != 503 || got.header.Get("Retry-After") != wait {
					t.Errorf("%d, Retry-After %q, want %q", got.status, got.header.Get("Retry-After"), wait)
				}
				p := got.problem(t)
				if p.Code != fault.Unavailable || p.Retryable || p.Reason == nil || *p.Reason != fault.ReasonOutcomeUnknown {
					t.Error(got.body)
				}
				var fields map[string]any
				if err := json.Unmarshal([]byte(got.body), &fields); err != nil {
					t.Fatal(err)
				}
				for _, field := range []string{"executionId", "runId"} {
					if value, present := fields[field]; present != (field == c.field) || present && value != executionID {
						t.Errorf("%s is %v", field, value)
					}
				}
				if err := problem.Validate(normal(t, jsonOf(t, got.body))); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
