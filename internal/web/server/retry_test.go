package server

import "testing"

// A retry policy that violates the contract is refused where it is wrong, before anything runs.
func TestInvalidPoliciesAreRefusedAtTheirPlace(t *testing.T) {
	s := start(t)
	for what, c := range map[string]struct{ fields, pointer string }{
		"a delay above its maximum":    {`"retry":{"initialDelayMs":3600001}`, "/retry/initialDelayMs"},
		"a longest delay above a day":  {`"retry":{"maxDelayMs":86400001}`, "/retry/maxDelayMs"},
		"more than 5,000 attempts":     {`"retry":{"maxAttempts":5001}`, "/retry/maxAttempts"},
		"a week and a millisecond":     {`"retry":{"maxElapsedMs":604800001}`, "/retry/maxElapsedMs"},
		"no code and no status":        {`"retry":{"on":[]}`, "/retry/on"},
		"a status of success":          {`"retry":{"on":[200]}`, "/retry/on/0"},
		"true instead of a policy":     {`"retry":true`, "/retry"},
		"a factor that shrinks delays": {`"retry":{"backoffFactor":0.5}`, "/retry/backoffFactor"},
	} {
		got := s.do(t, "POST", executePath, `{"module":"HASH","input":{},"config":{},`+c.fields+`}`)
		if got.status != 400 {
			t.Errorf("%s: %d %s", what, got.status, got.body)
			continue
		}
		if errors := got.problem(t).Errors; len(errors) != 1 || errors[0].Pointer != c.pointer {
			t.Errorf("%s: %+v, want a fault at %s", what, errors, c.pointer)
		}
	}
	if ran := s.operations.taken(); len(ran) != 0 {
		t.Errorf("ran %v", ran)
	}
}
