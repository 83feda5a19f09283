package callback

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/secret/signature"
)

func TestCB01StatusesThatDeliverAndThatFail(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(1)}})
	for code, class := range map[int]string{
		200: "", 201: "", 202: "", 204: "", 299: "",
		199: egress.ClassStatus, 300: egress.ClassRedirect, 301: egress.ClassRedirect, 307: egress.ClassRedirect, 304: egress.ClassRedirect,
		400: egress.ClassStatus, 404: egress.ClassStatus, 410: egress.ClassStatus, 429: egress.ClassStatus, 500: egress.ClassStatus, 503: egress.ClassStatus, 599: egress.ClassStatus,
	} {
		r := b.receiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		})
		f := b.submit(t, wish{url: r.url})
		b.await(t, 1)
		row := b.row(t, f)
		gotClass, gotCode := failure(t, row.LastError)
		wantCode, state := code, "EXHAUSTED"
		if class == "" {
			wantCode, state = 0, "DELIVERED"
		}
		if gotClass != class || gotCode != wantCode || row.State != state || row.AttemptCount != 1 || row.LastAttemptAt == nil {
			t.Errorf("%d: class %q, status %d, state %s, %d attempts", code, gotClass, gotCode, row.State, row.AttemptCount)
		}
		if (row.DeliveredAt != nil) != (class == "") || len(r.all()) != 1 || b.jobsLeft(t) != 0 {
			t.Errorf("%d: delivered at %v, %d requests, %d jobs left", code, row.DeliveredAt, len(r.all()), b.jobsLeft(t))
		}
		page, err := b.service.Attempts(t.Context(), Of{WorkspaceID: f.WorkspaceID, ID: f.ID}, 10, "")
		if err != nil || len(page.Data) != 1 || *page.Data[0].HTTPStatus != int32(code) || page.Data[0].Delivered != (class == "") {
			t.Errorf("%d: log of attempts %+v, %v", code, page, err)
		}
	}
}

func TestCB02AReceiverThatIsDownUsesUpTheSchedule(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(10)}})
	r := b.receiver(t, always(503))
	f := b.submit(t, wish{url: r.url})
	b.await(t, 10)
	row := b.row(t, f)
	if row.State != "EXHAUSTED" || row.AttemptCount != 10 || row.DeliveredAt != nil || len(r.all()) != 10 || b.jobsLeft(t) != 0 {
		t.Errorf("state %s after %d attempts and %d requests, %d jobs left", row.State, row.AttemptCount, len(r.all()), b.jobsLeft(t))
	}
	var before string
	if err := b.pool.QueryRow(t.Context(), "SELECT status FROM component_executions WHERE id = $1", f.ID).Scan(&before); err != nil || before != "COMPLETED" {
		t.Errorf("the execution is %s, %v", before, err)
	}
}

func TestCB02TheSecondAttemptWaitsInTheQueueAsPlanned(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		b := newBench(t, options{full: way.full})
		r := b.receiver(t, always(500))
		f := b.accept(t, wish{url: r.url})[0]
		b.finish(t, way.here, f)
		b.await(t, 1)
		row := b.row(t, f)
		var wait, due float64
		err := b.pool.QueryRow(t.Context(), `SELECT extract(epoch FROM scheduled_at - $2), extract(epoch FROM $3::timestamptz - $2)
			FROM river.river_job WHERE id = $1 AND state IN ('available', 'scheduled', 'running')`, *row.JobID, *row.LastAttemptAt, *row.DueAt).Scan(&wait, &due)
		if err != nil || row.State != stateQueued || due < 4 || due > 6 || wait < due-0.01 || way.full && wait > due+0.01 {
			t.Errorf("%s: state %s, due after %.2f s, job after %.2f s, %v", name, row.State, due, wait, err)
		}
	}
}

func TestCB02AShortDelayIsExact(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{idle: true, settings: Settings{Schedule: []time.Duration{0, time.Second, 100 * time.Millisecond, 20 * time.Second}}})
	r := b.receiver(t, always(500))
	f := b.accept(t, wish{url: r.url})[0]
	b.finish(t, true, f)
	b.await(t, 3)
	got := r.all()
	for i, planned := range []time.Duration{time.Second, 100 * time.Millisecond} {
		if gap := got[i+1].at.Sub(got[i].at); gap < planned*8/10 || waittest.Timed() && gap > planned*12/10+200*time.Millisecond {
			t.Errorf("attempt %d came %s after the one before", i+2, gap)
		}
	}
	b.deliverer.Drain(t.Context()) // does not wait for scheduled attempts of this process
	row := b.row(t, f)
	var in float64
	if err := b.pool.QueryRow(t.Context(), "SELECT extract(epoch FROM scheduled_at - $2) FROM river.river_job WHERE id = $1", *row.JobID, *row.LastAttemptAt).Scan(&in); err != nil || in < 15.9 || in > 24.1 {
		t.Errorf("returned to the queue, due in %.1f s, %v", in, err)
	}
}

func TestCB04GoneStopsTheDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{settings: Settings{Schedule: times(10)}})
	r := b.receiver(t, always(http.StatusGone))
	f := b.submit(t, wish{url: r.url})
	b.await(t, 1)
	if row := b.row(t, f); row.State != "EXHAUSTED" || row.AttemptCount != 1 || b.jobsLeft(t) != 0 {
		t.Errorf("state %s after %d attempts, %d jobs left", row.State, row.AttemptCount, b.jobsLeft(t))
	}
}

func TestCB05EveryAttemptSendsTheSameBytesAndSignature(t *testing.T) {
	t.Parallel()
	secret := "s3cret-ключ"
	for name, way := range ways {
		b := newBench(t, options{settings: Settings{Schedule: times(5)}, full: way.full})
		r := b.receiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 5 {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		f := b.accept(t, wish{
			url: r.url, secret: &secret, headers: map[string]string{"authorization": "Bearer abc", "X-Order": "42"},
			traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		})[0]
		b.finish(t, way.here, f)
		b.await(t, 5)
		got := r.all()
		if len(got) != 5 {
			t.Fatalf("%s: %d requests", name, len(got))
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(got[0].body)
		want := "hmac-sha256-v1=" + hex.EncodeToString(mac.Sum(nil))
		for i, request := range got {
			h := request.header
			if !bytes.Equal(request.body, got[0].body) || h.Get("X-Svc-Signature") != want {
				t.Errorf("%s: attempt %d differs", name, i+1)
			}
			if request.method != http.MethodPost || h.Get("X-Svc-Execution-Id") != f.ID.String() || h.Get("Content-Type") != "application/json" ||
				h.Get("Authorization") != "Bearer abc" || h.Get("X-Order") != "42" || h.Get("Accept-Encoding") != "" ||
				h.Get("Traceparent") != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || !strings.HasPrefix(h.Get("User-Agent"), "Weft") {
				t.Errorf("%s: attempt %d has the headers %v", name, i+1, h)
			}
		}
		var rec api.ComponentExecution
		if err := json.Unmarshal(got[0].body, &rec); err != nil || rec.ID != f.ID || !rec.Completed || rec.Callback.AttemptCount != 0 || !rec.Callback.Signed || len(rec.Callback.HeaderNames) != 2 {
			t.Errorf("%s: body %s, %v", name, got[0].body, err)
		}
		if bytes.Contains(got[0].body, []byte(secret)) || bytes.Contains(got[0].body, []byte("Bearer")) {
			t.Errorf("%s: the body shows a secret", name)
		}
		if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 5 || row.LastError != nil || row.DeliveredAt == nil {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

func TestCB22StandardWebhooksHeaders(t *testing.T) {
	t.Parallel()
	// Jitter shortens the delay by up to a fifth, and more than a second must be left.
	b := newBench(t, options{settings: Settings{Schedule: []time.Duration{0, 1300 * time.Millisecond, time.Millisecond}}})
	r := b.receiver(t, always(500))
	start := time.Now()
	key := []byte("0123456789abcdef0123456789abcdef")
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	f := b.submit(t, wish{url: r.url, secret: &secret})
	b.await(t, 3)
	stamps := make(map[string]bool)
	for _, request := range r.all() {
		id, stamp := request.header.Get("Webhook-Id"), request.header.Get("Webhook-Timestamp")
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "." + string(request.body)))
		if id != f.ID.String() || request.header.Get("Webhook-Signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("headers %v", request.header)
		}
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || time.Unix(seconds, 0).Before(start.Add(-time.Second)) || time.Until(time.Unix(seconds, 0)) > time.Second {
			t.Errorf("timestamp %q", stamp)
		}
		stamps[stamp] = true
	}
	if len(stamps) < 2 {
		t.Error("the timestamp is not new at each attempt")
	}
	unsigned := b.submit(t, wish{url: r.url})
	b.await(t, 1)
	last := r.all()[3].header
	if last.Get("X-Svc-Execution-Id") != unsigned.ID.String() || last.Get("X-Svc-Signature") != "" || last.Get("Webhook-Id") != "" || last.Get("Webhook-Signature") != "" {
		t.Errorf("without a secret: %v", last)
	}
}

func TestCB23SecretsOfEveryKindSignAsNodeDoes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/hmac.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Body       string
		Signatures []struct{ Name, Secret, Signature string }
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors.Signatures) < 5 {
		t.Fatal(err)
	}
	b := newBench(t, options{idle: true})
	r := b.receiver(t, nil)
	for i, v := range vectors.Signatures {
		if err := CheckSecret(v.Secret); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		id := newID(t)
		sealed, err := Seal(b.keyring, b.workspace, id, Secrets{Secret: &v.Secret})
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := unseal(b.keyring, b.workspace, id, sealed)
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.deliverer.sender.send(t.Context(), Message{ID: id, URL: r.url, Body: []byte(vectors.Body), Secrets: secrets})
		if err != nil || !out.delivered() || r.all()[i].header.Get("X-Svc-Signature") != v.Signature {
			t.Errorf("%s: %+v, %v, signature %q", v.Name, out, err, r.all()[i].header.Get("X-Svc-Signature"))
		}
	}
	for _, secret := range []string{"", strings.Repeat("s", 4097), "whsec_", "whsec_correct-horse", "whsec_YQ", "whsec_YQ==\n", "whsec_YWI-"} {
		refusal, ok := errors.AsType[*fault.Error](CheckSecret(secret))
		if !ok || refusal.Code != fault.InvalidInput || refusal.Details[0].Pointer != "/callbackSecret" {
			t.Errorf("secret of %d bytes: %v", len(secret), refusal)
		}
	}
}

// The test kills a worker process after the receiver's 2xx response, before (P6) and after (P7)
// the attempt is recorded.
func TestCB07ACrashAfterTheDeliveryRepeatsItAtMostOnce(t *testing.T) {
	t.Parallel()
	for point, sent := range map[string]int{"P6": 2, "P7": 1} {
		b := newBench(t, options{idle: true})
		r := &receiver{}
		r.url = plainServer(t, r)
		f := b.submit(t, wish{url: r.url})
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDSN+"="+b.dsn, "WEFT_CRASH_AT="+point)
		if output, err := child.CombinedOutput(); err == nil || child.ProcessState.ExitCode() != -1 {
			t.Fatalf("%s: the worker did not crash: %v\n%s", point, err, output)
		}
		if n := len(r.all()); n != 1 {
			t.Fatalf("%s: %d requests before the crash", point, n)
		}
		b.start(t)
		if err := b.deliverer.reconcile(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if sent == 2 {
			b.await(t, 1)
		}
		first := b.row(t, f)
		if err := b.deliverer.reconcile(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		got := r.all()
		if len(got) != sent || !bytes.Equal(got[0].body, got[len(got)-1].body) {
			t.Errorf("%s: %d requests", point, len(got))
		}
		if row := b.row(t, f); row.State != "DELIVERED" || row.AttemptCount != 1 || *row.DeliveredAt != *first.DeliveredAt || b.jobsLeft(t) != 0 {
			t.Errorf("%s: %+v, %d jobs left", point, row, b.jobsLeft(t))
		}
	}
}

// Receivers discard deliveries whose ID they have seen. After a restore the body may differ, so
// the ID must differ too.
func TestARestoreChangesTheWebhookID(t *testing.T) {
	t.Parallel()
	sender := NewSender(nil, 0)
	id, secret := newID(t), "secret"
	for restores, want := range map[int32]string{0: id.String(), 1: id.String() + ".2", 2: id.String() + ".3"} {
		request, err := sender.request(t.Context(), Message{
			ID: id, Restores: restores, URL: "https://a.example", Body: []byte("{}"), Secrets: Secrets{Secret: &secret},
		}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := request.Header.Get("Webhook-Id"); got != want {
			t.Errorf("after %d restores webhook-id is %s, want %s", restores, got, want)
		}
		if got := request.Header.Get("X-Svc-Execution-Id"); got != id.String() {
			t.Errorf("after %d restores the execution's id is %s", restores, got)
		}
		h := signature.Webhook{ID: request.Header["Webhook-Id"], Timestamp: request.Header["Webhook-Timestamp"], Signature: request.Header["Webhook-Signature"]}
		if err := h.Check(secret, []byte("{}"), time.Now()); err != nil {
			t.Errorf("after %d restores: %v", restores, err)
		}
	}
}

// OP-14: a delivery may wait for a permit while a quarantine starts.
func TestOP14NothingIsSentAfterTheStartOfAQuarantine(t *testing.T) {
	t.Parallel()
	for free := range 2 { // checks before the quarantine
		b := newBench(t, options{idle: true})
		r := b.receiver(t, nil)
		f := b.submit(t, wish{url: r.url})
		checks := 0
		b.deliverer.Quarantined = func() bool { checks++; return checks > free }
		job := &river.Job[Args]{JobRow: &rivertype.JobRow{ID: *b.row(t, f).JobID}, Args: Args{WorkspaceID: f.WorkspaceID, ExecutionID: f.ID}}
		retryIn, err := b.deliverer.work(t.Context(), job)
		if retryIn != quarantinePause || err != nil || len(r.all()) != 0 {
			t.Errorf("after %d checks: retried in %s, %v, %d requests", free, retryIn, err, len(r.all()))
		}
	}
}
