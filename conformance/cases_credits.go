package conformance

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

const keyWorkspace = "/v1/sdk/workspace"

var creditCases = []Case{
	{Part: "D7.own", Name: "credits/200 the workspace of the key", Run: creditsOfKey},
	{Part: "8.credits, D7.2.pots", Name: "credits/200 what each plan gives", Run: creditsPlans, Needs: workspaces},
	{Part: "8.4, D7.2.pots, D7.3", Name: "credits/200 plan credits first, then paid ones, then what the plan allows", Run: creditsAllowance, Needs: []probe.Need{probe.NeedWorkspace, probe.NeedNear}},
	{Part: "8.4, 8.4.paid, 8.custom, D7.3.limit", Name: "credits/402 beyond the usage limit, but for what paid credits pay", Run: creditsLimit, Needs: workspaces},
	{Part: "D7.3", Name: "credits/402 what would have been needed", Run: creditsRefusal, Needs: workspaces},
	{Part: "8.5", Name: "credits/200 what a week resets, and a month", Run: creditsResets, Needs: workspaces},
	{Part: "D7.3, D7.4, D3.table", Name: "LE08 credits/402 submits beyond the credits", Run: creditsExhausted, Needs: []probe.Need{probe.NeedPoor}},
	{Part: "D7.1, 3.1.completed, 2.1.totalUsage", Name: "credits/200 totalUsage is what the statement says", Run: creditsStatement, Needs: owner},
	{Part: "D7.4", Name: "credits/200 a failed execution costs nothing", Run: creditsFailed, Needs: []probe.Need{probe.NeedOwner, probe.NeedNear}},
	{Part: "D7.1, D1.5.cursor, D1.5.order, D9.2.rest", Name: "credits/200 the statement by pages and as CSV", Run: creditsPages, Needs: owner},
	{Part: "D7.5.execute, D3.table", Name: "credits/402 a price above maxCredits", Run: creditsCapped, Needs: workspaces},
	{Part: "D7.6, D3.table", Name: "credits/402 a workspace that has stored what it may", Run: creditsStorage, Needs: workspaces},
	{Part: "8.5.shown", Name: "credits/200 the times of the next release and the next reset", Run: creditsPeriods},
}

func creditsOfKey(t *probe.Trial) {
	own := probe.Decode[api.KeyWorkspace](t, t.Get(keyWorkspace))
	t.Equal("id", own.ID.String(), t.Target().WorkspaceID)
	t.Equal("plan", own.Credits.Plan, own.Plan)
	t.Check(own.Name != "" && own.APIKey.Label != "" && own.APIKey.AllowedWorkflowIds != nil, "the workspace is %+v", own)
}

// creditsOf returns the credits of a workspace.
func creditsOf(t *probe.Trial, as probe.Signing) api.Credits {
	return probe.Decode[api.KeyWorkspace](t, t.Do(probe.Request{Path: keyWorkspace, Sign: as})).Credits
}

// ledger returns a page of the statement.
func ledger(t *probe.Trial, token, query string) api.LedgerPage {
	return probe.Decode[api.LedgerPage](t, t.Do(probe.Request{Path: probe.Workspace(t.Target().WorkspaceID) + "/ledger" + query, Bearer: token}))
}

func creditsStatement(t *probe.Trial) {
	token := t.SignIn()
	made := t.Execute(probe.RandomUUID().Waiting(15_000))
	t.Equal("status", string(made.Status), "COMPLETED")
	line := lineOf(t, token, made.ID.String())
	t.Equal("usage", line.Usage, made.TotalUsage)
	t.Equal("what paid it", -line.PlanCredits-line.PaidCredits+line.Allowance, line.Usage)
	t.Equal("kind", string(line.Kind), "EXECUTION")
	credits := probe.Decode[api.Credits](t, t.Do(probe.Request{Path: probe.Workspace(t.Target().WorkspaceID) + "/credits", Bearer: token}))
	t.Check(credits.AvailableCredits <= credits.PlanCredits+credits.PaidCredits, "available are %s", credits.AvailableCredits)
}

// lineOf returns the only line of the statement that names an execution.
func lineOf(t *probe.Trial, token, id string) (line api.LedgerPosting) {
	found := 0
	for _, posting := range ledger(t, token, "?limit=100").Data {
		if posting.ExecutionID != nil && posting.ExecutionID.String() == id {
			line = posting
			found++
		}
	}
	t.Equal("lines of the statement for "+id, found, 1)
	return line
}

func creditsFailed(t *probe.Trial) {
	token := t.SignIn()
	made := t.Execute(probe.Fetch(t.Upstream(answering(http.StatusServiceUnavailable))).Waiting(15_000))
	t.Equal("status", string(made.Status), "FAILED")
	t.Check(made.TotalUsage == 0, "totalUsage: %s", made.TotalUsage)
	t.Check(lineOf(t, token, made.ID.String()).Usage == 0, "usage: %s", lineOf(t, token, made.ID.String()).Usage)
}

func creditsPages(t *probe.Trial) {
	token := t.SignIn()
	for range 3 {
		t.Execute(probe.RandomUUID().Waiting(15_000))
	}
	first := ledger(t, token, "?limit=2")
	t.Check(len(first.Data) == 2 && first.HasMore && first.NextCursor != nil, "the first page is %+v", first)
	second := ledger(t, token, "?limit=2&cursor="+*first.NextCursor)
	t.Check(len(second.Data) > 0 && second.Data[0].ID.String() < first.Data[1].ID.String(), "the pages overlap")
	for _, query := range []string{"?limit=0", "?cursor=x", "?from=yesterday", "?from=2026-11-02&to=2026-11-01"} {
		t.Problem(t.Do(probe.Request{Path: probe.Workspace(t.Target().WorkspaceID) + "/ledger" + query, Bearer: token}), http.StatusBadRequest, "INVALID_INPUT")
	}
	today := time.Now().UTC()
	day := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	t.Equal("postings of days to come", len(ledger(t, token, "?from="+day(2)).Data), 0)
	t.Equal("postings of days gone by", len(ledger(t, token, "?to="+day(-2)).Data), 0)
	t.Check(len(ledger(t, token, "?from="+day(-1)+"&to="+day(1)).Data) > 0, "there are no postings of today")

	answer := t.Do(probe.Request{
		Path: probe.Workspace(t.Target().WorkspaceID) + "/ledger", Bearer: token, Header: http.Header{"Accept": {"text/csv"}},
	})
	lines, err := csv.NewReader(strings.NewReader(string(answer.Body))).ReadAll()
	t.Equal("Content-Disposition", answer.Header.Get("Content-Disposition"), `attachment; filename="ledger.csv"`)
	t.Check(err == nil && len(lines) > 3 && strings.HasPrefix(answer.Header.Get("Content-Type"), "text/csv"), "%d lines of %s, %v", len(lines), answer.Header.Get("Content-Type"), err)
	t.Equal("names", strings.Join(lines[0], ","), "id,kind,executionId,runId,reference,planCredits,paidCredits,allowance,usage,note,createdAt")
	at := slices.IndexFunc(lines, func(line []string) bool { return line[0] == first.Data[0].ID.String() })
	t.Check(at > 0, "the file lacks %s", first.Data[0].ID)
	t.Equal("usage in the file", lines[at][8], first.Data[0].Usage.String())
}

// A quarter of the plan's monthly credits is available immediately.
func creditsPlans(t *probe.Trial) {
	for plan, want := range map[string]string{
		"starter":      "monthly 0, limit 0, plan 0, paid 3, available 3, used 0",
		"growth":       "monthly 200, limit 500, plan 50, paid 3, available 53, used 0",
		"professional": "monthly 1000, limit 2500, plan 250, paid 3, available 253, used 0",
	} {
		own := creditsOf(t, withCredit(t, plan, 3))
		t.Check(own.UsageLimit != nil, "%s has no usageLimit", plan)
		t.Equal("credits of "+plan, fmt.Sprintf("monthly %s, limit %s, plan %s, paid %s, available %s, used %s", own.MonthlyCredits,
			own.UsageLimit, own.PlanCredits, own.PaidCredits, own.AvailableCredits, own.UsedThisMonth), want)
	}
}

// A workspace with the plan Growth spends its quarter of 50 and one paid credit, and can continue.
func creditsAllowance(t *probe.Trial) {
	as := withCredit(t, "growth", 1)
	spend := func(call probe.Call) string {
		made := probe.Decode[api.ComponentExecution](t, t.Do(submit(t, call.Waiting(15_000), as)))
		t.Equal("status", string(made.Status), "COMPLETED")
		return made.ID.String()
	}
	has := func() string {
		own := creditsOf(t, as)
		return fmt.Sprintf("plan %s, paid %s, available %s, used %s", own.PlanCredits, own.PaidCredits, own.AvailableCredits, own.UsedThisMonth)
	}
	upstream := t.Upstream(answering(http.StatusOK))
	t.Parallel(5, func(int) {
		for range 5 {
			spend(probe.Fetch(upstream)) // for 2
		}
	})
	t.Equal("after 50 credits", has(), "plan 0, paid 1, available 1, used 50")
	spend(probe.RandomUUID())
	t.Equal("after 51 credits", has(), "plan 0, paid 0, available 0, used 50")
	allowed := spend(probe.RandomUUID())
	t.Equal("after 52 credits", has(), "plan 0, paid 0, available 0, used 51")
	page := probe.Decode[api.LedgerPage](t, t.Do(probe.Request{Path: probe.Workspace(as.As.WorkspaceID) + "/ledger?limit=100", Bearer: t.SignInAs(*as.As)}))
	at := slices.IndexFunc(page.Data, func(p api.LedgerPosting) bool { return p.ExecutionID != nil && p.ExecutionID.String() == allowed })
	t.Check(at >= 0, "the statement lacks %s", allowed)
	line := page.Data[at]
	t.Equal("who paid", fmt.Sprint(line.PlanCredits, line.PaidCredits, line.Allowance, line.Usage), "0 0 1 1")
}

// creditsLimit uses a workspace with 4 credits a month, so a quarter of 1, and a usage limit of 3.
func creditsLimit(t *probe.Trial) {
	as := on(t, probe.Terms{Plan: "enterprise", Paid: 1, Credits: new(4), UsageLimit: new(3)})
	execute := submit(t, probe.RandomUUID().Waiting(15_000), as) // for 1
	stands := func(what, want string) {
		own := creditsOf(t, as)
		t.Check(own.UsageLimit != nil, "there is no usageLimit")
		got := fmt.Sprintf("monthly %s, limit %s, plan %s, paid %s, used %s", own.MonthlyCredits, own.UsageLimit, own.PlanCredits, own.PaidCredits, own.UsedThisMonth)
		t.Equal(what, got, "monthly 4, limit 3, "+want)
	}
	spend := func(times int) {
		for range times {
			made := probe.Decode[api.ComponentExecution](t, t.Do(execute))
			t.Equal("status", string(made.Status), "COMPLETED")
		}
		p := t.Problem(t.Do(execute), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
		t.Equal("reason", probe.Reason(p), "credits_exhausted")
	}
	stands("at first", "plan 1, paid 1, used 0")
	spend(1 + 1 + 2) // of the plan, paid, and what the limit allows beyond
	stands("at the limit", "plan 0, paid 0, used 3")
	t.NoError("grant", t.Target().Grant(t.Context(), as.As.WorkspaceID, 5))
	spend(5)
	stands("after paid credits beyond the limit", "plan 0, paid 0, used 3")
}

// creditsStorage uses a workspace that may store 3,000 bytes a month. A workflow and its first run
// use up these bytes, so the run in progress accepts no signal.
func creditsStorage(t *probe.Trial) {
	c := customerRuns{t, on(t, probe.Terms{Plan: "enterprise", Paid: 5, Storage: new(int64(3000))})}
	own := creditsOf(t, c.as)
	t.Check(own.StoredBytes == 0 && own.StorageLimit != nil && *own.StorageLimit == 3000, "at first: %+v", own)
	waits := sketch([]object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, nil)
	id := decodeWorkflow(t, c.ask(http.MethodPost, workflows, waits)).ID
	began := probe.Decode[api.TriggerResult](t, c.ask(http.MethodPost, workflowPath(id), object{}))
	own = creditsOf(t, c.as)
	t.Check(own.StoredBytes >= 3000, "%d bytes are stored", own.StoredBytes)
	for what, answer := range map[string]probe.Answer{
		"a run":        c.ask(http.MethodPost, workflowPath(id), object{}),
		"a signal":     c.ask(http.MethodPut, runPath(began.RunID.String())+"/signals/go", object{}),
		"a workflow":   c.ask(http.MethodPost, workflows, waits),
		"a version":    c.ask(http.MethodPut, workflowPath(id), waits),
		"a component":  c.ask(http.MethodPost, workflowPath(id)+"/components/wait", object{"name": "another"}),
		"an execution": t.Do(submit(t, probe.RandomUUID(), c.as)),
	} {
		p := t.Problem(answer, http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
		t.Equal("reason for "+what, probe.Reason(p), "storage_exhausted")
		t.Check(!p.Retryable, "%s: a 402 says that it is retryable", what)
		t.Check(p.StorageLimit != nil && *p.StorageLimit == 3000, "%s: storageLimit is %v", what, p.StorageLimit)
		t.Check(p.NextResetAt != nil && *p.NextResetAt == own.NextResetAt, "%s: nextResetAt is %v, want %v", what, p.NextResetAt, own.NextResetAt)
	}
	for plan, gib := range map[string]int64{"starter": 5, "growth": 25, "professional": 100} {
		limit := creditsOf(t, withCredit(t, plan, 1)).StorageLimit
		t.Check(limit != nil && *limit == gib<<30, "%s has the limit %v", plan, limit)
	}
}

// creditsRefusal checks that a submission is rejected immediately once the quarter's credits are
// spent. The usage limit allows no more than these credits.
func creditsRefusal(t *probe.Trial) {
	as := on(t, probe.Terms{Plan: "enterprise", Credits: new(4), UsageLimit: new(1), Spent: 1})
	p := t.Problem(t.Do(submit(t, probe.RandomUUID(), as)), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
	t.Check(p.Price != nil && p.AvailableCredits != nil && p.ReservedCredits != nil && p.NextReleaseAt != nil, "a 402 without what there is: %+v", p)
	t.Equal("price, available and reserved", fmt.Sprint(*p.Price, *p.AvailableCredits, *p.ReservedCredits), "1 0 0")
	t.Equal("nextReleaseAt", *p.NextReleaseAt, creditsOf(t, as).NextReleaseAt)
}

// creditsResets checks the soft (weekly) and the hard (monthly) reset of credits. Each of its two
// workspaces is on the Growth plan, which releases 50 credits a quarter, and had spent 30 of the 50
// credits. The first workspace was idle since an earlier week, the second since an earlier month.
func creditsResets(t *probe.Trial) {
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	monday := now.Truncate(24*time.Hour).AddDate(0, 0, -(int(now.Weekday())+6)%7)
	token := t.SignInAs(*customer(t, "starter").As) // whose owner owns the others too
	for _, then := range []time.Time{monday.Add(-time.Minute), month.Add(-time.Minute)} {
		as := on(t, probe.Terms{Plan: "growth", Paid: 3, Then: then, Spent: 30})
		// Soft reset: the quarter is full again, and the usage of the month stays.
		want, moves := "plan 50, paid 3, used 30", "RELEASE 30, EXECUTION -30, RELEASE 50, GRANT 0"
		if then.Before(month) {
			// Hard reset: the remaining credits expire, and the usage is zero. In the first days of
			// a month, the earlier week is also in the earlier month.
			want, moves = "plan 50, paid 3, used 0", "RELEASE 50, EXPIRY -20, EXECUTION -30, RELEASE 50, GRANT 0"
		}
		own := creditsOf(t, as)
		t.Equal("since "+then.String(), fmt.Sprintf("plan %s, paid %s, used %s", own.PlanCredits, own.PaidCredits, own.UsedThisMonth), want)
		var lines []string
		page := probe.Decode[api.LedgerPage](t, t.Do(probe.Request{Path: probe.Workspace(as.As.WorkspaceID) + "/ledger", Bearer: token}))
		for _, line := range page.Data {
			lines = append(lines, fmt.Sprintf("%s %s", line.Kind, line.PlanCredits))
		}
		t.Equal("the statement, newest first", strings.Join(lines, ", "), moves)
	}
}

// The poor workspace has no plan credits, and paid credits for two executions.
func creditsExhausted(t *probe.Trial) {
	poor := t.Target().Poor
	var accepted, refused atomic.Int32
	t.Parallel(20, func(n int) {
		answer := t.Do(probe.Request{
			Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.RandomUUID().Waiting(15_000)),
			Header: http.Header{"Idempotency-Key": {fmt.Sprint("poor ", n)}}, Sign: probe.Signing{As: poor},
		})
		if answer.Status == http.StatusOK {
			accepted.Add(1)
			return
		}
		refused.Add(1)
		p := t.Problem(answer, http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
		t.Equal("reason", probe.Reason(p), "credits_exhausted")
		t.Check(!p.Retryable, "a 402 says that it is retryable")
		t.Check(p.Price != nil && *p.Price == 1_000_000 && p.AvailableCredits != nil && *p.AvailableCredits == 0, "a 402 without price and credits: %s", answer.Body)
	})
	t.Check(accepted.Load() == 2 && refused.Load() == 18, "%d were accepted and %d refused", accepted.Load(), refused.Load())
	own := probe.Decode[api.KeyWorkspace](t, t.Do(probe.Request{Path: keyWorkspace, Sign: probe.Signing{As: poor}}))
	t.Check(own.Credits.AvailableCredits == 0, "available credits: %s", own.Credits.AvailableCredits)
	t.Check(own.Credits.PaidCredits == 0, "paid credits: %s", own.Credits.PaidCredits)
	// Reading costs no credits, and a rejected request stores no Idempotency-Key.
	t.Equal("the list", t.Do(probe.Request{Path: probe.Executions, Sign: probe.Signing{As: poor}}).Status, http.StatusOK)
}

// A request rejected because of maxCredits leaves no execution, no reserved credits and no
// Idempotency-Key. An accepted request can be repeated only with the same maxCredits.
func creditsCapped(t *probe.Trial) {
	as := withCredit(t, "starter", 5)
	price := priceOf(t, probe.RandomUUID().Module)
	t.Check(price != "0", "%s costs nothing", probe.RandomUUID().Module)
	submitWith := func(key, most string) probe.Answer {
		call := probe.RandomUUID().Waiting(15_000)
		call.MaxCredits = json.Number(most)
		request := submit(t, call, as)
		request.Header = http.Header{"Idempotency-Key": {key}}
		return t.Do(request)
	}
	key := unique()
	for _, most := range []string{"0", "1e-6", "0.000001"} {
		p := t.Problem(submitWith(key, most), http.StatusPaymentRequired, "INSUFFICIENT_CREDITS")
		t.Equal("reason", probe.Reason(p), "max_credits")
		t.Check(strings.Contains(p.Message, price+" credits"), "the message names no price: %s", p.Message)
		t.Check(!p.Retryable, "a 402 says that it is retryable")
	}
	t.Equal("executions", len(probe.Decode[api.ComponentExecutionPage](t, t.Do(probe.Request{Path: probe.Executions, Sign: as})).Data), 0)
	own := creditsOf(t, as)
	t.Equal("credits", fmt.Sprint(own.AvailableCredits, own.ReservedCredits), "5 0")

	made := probe.Decode[api.ComponentExecution](t, submitWith(key, price))
	t.Equal("status", string(made.Status), "COMPLETED")
	t.Equal("totalUsage", made.TotalUsage.String(), price)
	t.Problem(submitWith(key, "0"), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
	again := probe.Decode[api.ComponentExecution](t, submitWith(key, price))
	t.Equal("the repeat", again.ID, made.ID)
}

// priceOf returns the price of a component in the catalogue.
func priceOf(t *probe.Trial, module string) string {
	for _, c := range catalogue(t) {
		if c.Module == module {
			return c.Price.String()
		}
	}
	t.Check(false, "the catalogue lacks %s", module)
	return ""
}

func creditsPeriods(t *probe.Trial) {
	c := probe.Decode[api.KeyWorkspace](t, t.Get(keyWorkspace)).Credits
	month, release, reset := c.MonthStartsAt.Std(), c.NextReleaseAt.Std(), c.NextResetAt.Std()
	t.Check(month.Day() == 1 && month.Equal(month.Truncate(24*time.Hour)), "the month starts at %v", month)
	t.Equal("the reset", reset, month.AddDate(0, 1, 0))
	t.Check(release.Equal(reset) || release.Weekday() == time.Monday && release.Before(reset), "the release is at %v", release)
	t.Check(time.Until(release) > -time.Minute && time.Until(release) <= 7*24*time.Hour, "the release is at %v", release)
}
