package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/program/pagetest"
)

// What a person types has the bounds of the contract, and is text.
func TestFormsHaveTheBoundsOfTheContract(t *testing.T) {
	p := pagetest.Start(t).SignIn(t, pagetest.Email)
	path := p.Run(p.Create("Approval", trigger, approval, respond), nil)
	settings := strings.Replace(p.Base, "/console/", "/settings/workspaces/", 1)
	for name, one := range map[string]struct {
		path string
		form url.Values
	}{
		"a long reason":       {path + "/cancel", url.Values{"mode": {"graceful"}, "reason": {strings.Repeat("x", 1_001)}}},
		"another mode":        {path + "/cancel", url.Values{"mode": {"gentle"}}},
		"NUL":                 {path + "/cancel", url.Values{"mode": {"graceful"}, "reason": {"a\x00b"}}},
		"no UTF-8":            {path + "/cancel", url.Values{"mode": {"graceful"}, "reason": {"a\xffb"}}},
		"NUL in a mode":       {path + "/cancel", url.Values{"mode": {"graceful\x00"}}},
		"NUL in a payload":    {path + "/signal", url.Values{"name": {"approved"}, "payload": {"{\"a\":\"\x00\"}"}}},
		"no UTF-8 of a call":  {p.Base + "/playground/TRANSFORM", url.Values{"/config/expression": {"\xff"}}},
		"NUL in a signing-in": {"/settings/sign-in", url.Values{"email": {"a\x00@example.org"}, "password": {"x"}}},
		"NUL in an invitee":   {settings + "/invitations", url.Values{"email": {"a\x00@example.org"}, "role": {"viewer"}}},
	} {
		if status, _, _ := p.Post(one.path, one.form); status != 400 {
			t.Errorf("%s: %d, want 400", name, status)
		}
	}
	for _, query := range []string{"?cursor=%00", "?workflow=%ff", "?status=%00", "?since=%ff"} {
		if status, _ := p.Get(p.Base + "/runs" + query); status != 400 {
			t.Errorf("%s: %d, want 400", query, status)
		}
	}
	if _, page := p.Get(path); !strings.Contains(page, "Waits for the signal") {
		t.Error("a rejected form changed the run")
	}
	if status, _, _ := p.Post(path+"/cancel", url.Values{"mode": {"immediate"}, "reason": {strings.Repeat("😀", 1_000)}}); status != 303 {
		t.Errorf("a reason as long as the contract allows: %d", status)
	}
}
