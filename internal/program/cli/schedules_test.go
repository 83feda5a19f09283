package cli_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const scheduleID = "019aa5f3-1c2d-7e3f-8a4b-5c6d7e8f9a0b"

func scheduleText(status, next string) string {
	return `{"id":"` + scheduleID + `","workflowId":"` + workflowID + `","name":"of\u001b[2J X","cron":"0 9 * * MON-FRI","timeZone":"Europe/Berlin","overlap":"queue","status":"` + status +
		`","nextAt":` + next + `,"waiting":[],"lastAt":null,"lastRunId":null,"lastSkippedAt":"2026-11-20T08:00:00.000Z","lastSkipReason":"workflow_paused",` +
		`"lastClockChange":null,"nextClockChange":{"at":"2027-03-28T01:00:00.000Z","kind":"skipped","localTime":"2027-03-28T02:30","count":1},"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`
}

// nameWorkflow adds a name of the test's workflow to the credentials file.
func (s *service) nameWorkflow(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(s.credentials)
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Replace(string(text), "{", `{"workflows":{"`+name+`":"`+workflowID+`"},`, 1)
	if err := os.WriteFile(s.credentials, []byte(named), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSchedulesAreCreatedPausedAndDeleted(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			fmt.Fprint(w, scheduleText("PAUSED", "null"))
			return
		}
		fmt.Fprint(w, scheduleText("ACTIVE", `"2026-11-23T08:00:00.000Z"`))
	})
	s.nameWorkflow(t, "daily")
	schedules := func(args ...string) result { return run(t, s.environ(), "", append([]string{"schedules"}, args...)...) }
	schedules("create", "daily", "0 9 * * MON-FRI", "--time-zone=Europe/Berlin", "--overlap=queue", "--name=<Work>", "--paused", "--idempotency-key=once").
		check(t, 0, "2026-11-23 08:00:00\n", "")
	schedules("create", workflowID).check(t, 0, "Europe/Berlin\n", "clock change 2027-03-28 01:00:00: skipped 1, from 2027-03-28T02:30\n")
	schedules("pause", scheduleID).check(t, 0, "PAUSED\n", "")
	schedules("resume", scheduleID).check(t, 0, scheduleID+"\n", "")
	schedules("delete", scheduleID).check(t, 0, "", "is deleted")
	path := "/v1/sdk/schedules"
	kept := `{"cron":"0 9 * * MON-FRI","name":"of\u001b[2J X","overlap":"queue","status":"%s","timeZone":"Europe/Berlin"}`
	want := []string{
		"POST " + path + ` {"cron":"0 9 * * MON-FRI","name":"<Work>","overlap":"queue","status":"PAUSED","timeZone":"Europe/Berlin","workflowId":"` + workflowID + `"}`,
		"POST " + path + ` {"workflowId":"` + workflowID + `"}`,
		"GET " + path + "/" + scheduleID, "PUT " + path + "/" + scheduleID + " " + fmt.Sprintf(kept, "PAUSED"),
		"GET " + path + "/" + scheduleID, "PUT " + path + "/" + scheduleID + " " + fmt.Sprintf(kept, "ACTIVE"),
		"DELETE " + path + "/" + scheduleID,
	}
	if !slices.Equal(s.asked(), want) {
		t.Errorf("requests %q\nwant %q", s.asked(), want)
	}
	if first, second := s.requests[0].Header.Get("Idempotency-Key"), s.requests[1].Header.Get("Idempotency-Key"); first != "once" || second != "" {
		t.Errorf("unexpected Idempotency-Keys %q and %q", first, second)
	}
	for want, args := range map[string][]string{
		`there is no workflow "weekly"`: {"create", "weekly"}, `there is no workflow "nonsense"`: {"list", "--workflow=nonsense"}, "at least 1": {"list", "--limit=0"},
		`there is no schedule "nonsense"`: {"delete", "nonsense"}, "there is no credentials file": {"pause", scheduleID, "--credentials=nowhere.json"},
	} {
		got := schedules(args...)
		if got.code == 0 || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: %d, %s, want %s", args, got.code, got.stderr, want)
		}
	}
}

func TestSchedulesAreListed(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s,%s],"nextCursor":"more","hasMore":true}`, scheduleText("ACTIVE", `"2026-11-23T08:00:00.000Z"`), scheduleText("PAUSED", "null"))
	})
	got := run(t, s.environ(), "", "schedules", "list", "--limit=2", "--workflow="+workflowID)
	got.check(t, 0, "\nof\uFFFD[2J X  "+workflowID+"  ACTIVE  0 9 * * MON-FRI  Europe/Berlin  2026-11-23 08:00:00  -     queue    2026-11-20 08:00:00  workflow_paused  "+scheduleID+"\n", "There are more")
	got.check(t, 0, "PAUSED  0 9 * * MON-FRI  Europe/Berlin  -                    -     queue    2026-11-20", "")
	if want := "GET /v1/sdk/schedules?limit=2&workflowId=" + workflowID; s.seen()[0] != want {
		t.Errorf("sent %s, want %s", s.seen()[0], want)
	}
}

func TestSchedulesAreUpdated(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, scheduleText("ACTIVE", "null")) })
	schedules := func(args ...string) result { return run(t, s.environ(), "", append([]string{"schedules"}, args...)...) }
	schedules("get", scheduleID).check(t, 0, "0 9 * * MON-FRI\n", "")
	schedules("update", scheduleID, "--cron=@daily", "--overlap=skip").check(t, 0, scheduleID+"\n", "clock change")
	schedules("update", scheduleID).check(t, 2, "", "nothing to update")
	path := "/v1/sdk/schedules/" + scheduleID
	want := []string{"GET " + path, "GET " + path, "PUT " + path + ` {"cron":"@daily","name":"of\u001b[2J X","overlap":"skip","status":"ACTIVE","timeZone":"Europe/Berlin"}`}
	if !slices.Equal(s.asked(), want) {
		t.Errorf("requests %q", s.asked())
	}
}

func TestSchedulesAndHooksHaveADeadlineAndACallbackForTheirRuns(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/sdk/hooks") {
			fmt.Fprint(w, hookText("ACTIVE"))
			return
		}
		fmt.Fprint(w, scheduleText("ACTIVE", "null"))
	})
	secret, empty := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "empty")
	if err := errors.Join(os.WriteFile(secret, []byte("correct horse\n"), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	given := []string{"--deadline=2h", "--callback-url=https://a.example/?a=1&b=2", "--callback-secret-file=" + secret}
	removed := []string{"--deadline=null", "--callback-url=null", "--callback-secret-file=" + empty}
	for _, args := range [][]string{
		append([]string{"schedules", "create", workflowID}, given...), append([]string{"schedules", "update", scheduleID}, removed...),
		append([]string{"hooks", "create", workflowID}, given...), append([]string{"hooks", "update", hookID}, removed...),
	} {
		run(t, s.environ(), "", args...).check(t, 0, "", "")
	}
	const set, unset = `"callbackSecret":"correct horse","callbackUrl":"https://a.example/?a=1&b=2",`, `"callbackSecret":null,"callbackUrl":null,`
	for i, part := range map[int][]string{0: {set, `"deadlineMs":7200000`}, 2: {unset, `"deadlineMs":null`}, 3: {set, `"deadlineMs":7200000`}, 5: {unset, `"deadlineMs":null`}} {
		for _, one := range part {
			if seen := s.asked(); i >= len(seen) || !strings.Contains(seen[i], one) {
				t.Errorf("request %d has no %s: %q", i, one, seen)
			}
		}
	}
	run(t, s.environ(), "", "schedules", "update", scheduleID, "--deadline=soon").check(t, 2, "", "--deadline")
}
