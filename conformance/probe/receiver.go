package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"encoding/json"

	"github.com/weft-automation/weft/gen/api"
)

// loopback is the address on which receivers listen, unless the target has a Host.
const loopback = "127.0.0.1"

// Reply is how a receiver answers one delivery.
type Reply struct {
	Status int
	Header map[string]string
	Body   string
	Hold   <-chan struct{} // the response is sent once Hold is closed
	Close  bool            // the connection is closed without a response
}

// Delivery is a callback as received.
type Delivery struct {
	At     time.Time // time of receipt
	Method string
	Header http.Header
	Body   []byte
	Record api.ComponentExecution // of an execution
	Run    api.WorkflowRun        // of a run
}

// OfRun reports whether the callback says that it belongs to a run.
func (d Delivery) OfRun() bool { return d.Header.Get("X-Svc-Run-Id") != "" }

// id returns the ID in the body.
func (d Delivery) id() string {
	if d.OfRun() {
		return d.Run.ID.String()
	}
	return d.Record.ID.String()
}

// Receiver receives callbacks and verifies each.
type Receiver struct {
	URL string

	target  string // path and query of URL
	t       *Trial
	secret  string
	replies []Reply
	count   atomic.Int64
	came    chan Delivery
}

// Receiver starts a receiver. The first delivery gets the first reply, and so on. The last reply is
// repeated. If no replies are given, every reply is 204. secret is the callbackSecret, or "" for a
// call without one.
func (t *Trial) Receiver(secret string, replies ...Reply) *Receiver {
	if len(replies) == 0 {
		replies = []Reply{{Status: http.StatusNoContent}}
	}
	r := &Receiver{t: t, secret: secret, replies: replies, came: make(chan Delivery, 256)}
	// The path is unique, because the port may have been that of an earlier receiver, whose callbacks
	// are still retried.
	r.target = "/callback/" + rand.Text() + "?from=conformance"
	r.URL = t.serve(http.HandlerFunc(r.receive), t.target.Authority) + r.target
	return r
}

// Upstream starts a plain HTTP server for components to call, and returns its base
// URL.
func (t *Trial) Upstream(handler http.HandlerFunc) string { return t.serve(handler, nil) }

func (t *Trial) serve(handler http.Handler, authority *Authority) string {
	host, at := loopback, loopback+":0"
	if t.target.Host != "" {
		host, at = t.target.Host, ":0"
	}
	listener, err := net.Listen("tcp", at)
	t.NoError("listen", err)
	host = net.JoinHostPort(host, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	base := "http://" + host
	if authority != nil {
		base = "https://" + host
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{authority.certificate}})
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return base
}

func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) {
	if !strings.HasPrefix(r.target, request.URL.Path+"?") {
		http.NotFound(w, request)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	header := request.Header.Clone()
	header.Set("Host", request.Host)
	header.Set("Target", request.RequestURI)
	arrived := []Delivery{{Method: request.Method, Header: header, Body: body}}
	if r.t.target.Deliver != nil {
		arrived = r.t.target.Deliver(arrived[0])
	}
	before := int(r.count.Add(int64(len(arrived)))) - len(arrived)
	reply := r.replies[min(before, len(r.replies)-1)]
	for _, d := range arrived {
		d.At = time.Now()
		r.came <- d
	}
	if reply.Hold != nil {
		select {
		case <-reply.Hold:
		case <-r.t.ctx.Done():
		}
	}
	if reply.Close {
		panic(http.ErrAbortHandler)
	}
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(reply.Status)
	_, _ = io.WriteString(w, reply.Body)
}

// Received returns the number of deliveries so far.
func (r *Receiver) Received() int { return int(r.count.Load()) }

// Next waits for the next delivery, validates it against the document, and verifies
// the signature over the raw bytes.
func (r *Receiver) Next() Delivery {
	var d Delivery
	select {
	case d = <-r.came:
	case <-time.After(r.t.Limit(30 * time.Second)):
		r.t.Fatalf("no callback within 30 s")
	case <-r.t.ctx.Done():
		r.t.Fatalf("no callback within the time limit of the case")
	}
	r.tamper(&d)
	r.t.Decided("D5.1.post", d.Method == http.MethodPost, "callback method: got %s, want POST", d.Method)
	if kind := d.Header.Get("Content-Type"); kind != "application/json" {
		r.t.Decided("D5.1.post", false, "callback Content-Type: got %s, want application/json", kind)
		d.Header.Set("Content-Type", "application/json") // validate the rest
	}
	r.t.Equal("callback target", d.Header.Get("Target"), r.target)
	r.t.NoError("callback", r.t.target.Spec.checkCallback(d))
	r.identify(&d)
	r.verify(d)
	return d
}

// identify decodes the body of a delivery and checks its headers about what ended.
func (r *Receiver) identify(d *Delivery) {
	execution, run, kind := "", "", ""
	if d.OfRun() {
		r.t.NoError("callback", json.Unmarshal(d.Body, &d.Run))
		run, kind = d.Run.ID.String(), "run."+strings.ToLower(string(d.Run.Status))
	} else {
		r.t.NoError("callback", json.Unmarshal(d.Body, &d.Record))
		execution, kind = d.Record.ID.String(), "execution."+strings.ToLower(string(d.Record.Status))
	}
	r.t.Equal("X-Svc-Execution-Id", d.Header.Get("X-Svc-Execution-Id"), execution)
	r.t.Equal("X-Svc-Run-Id", d.Header.Get("X-Svc-Run-Id"), run)
	r.t.Equal("webhook-type", d.Header.Get("Webhook-Type"), kind)
}

func (r *Receiver) tamper(d *Delivery) {
	if r.t.target.Tamper == nil {
		return
	}
	before := d.Body
	r.t.target.Tamper(d)
	// A mutated body must be detected by its content, not by its signature.
	if r.secret != "" && !bytes.Equal(before, d.Body) {
		d.Header.Set("X-Svc-Signature", callbackSignature(r.secret, d.Body))
		d.Header.Set("Webhook-Signature", webhookSignature(r.secret, d.Header.Get("Webhook-Id"), d.Header.Get("Webhook-Timestamp"), d.Body))
	}
}

// verify checks both signatures, or that both are missing if there is no secret.
func (r *Receiver) verify(d Delivery) {
	id, timestamp := d.Header.Get("Webhook-Id"), d.Header.Get("Webhook-Timestamp")
	if r.secret == "" {
		for _, name := range []string{"X-Svc-Signature", "Webhook-Signature", "Webhook-Id", "Webhook-Timestamp"} {
			r.t.Check(d.Header.Get(name) == "", "%s without a secret", name)
		}
		return
	}
	r.t.Equal("X-Svc-Signature", d.Header.Get("X-Svc-Signature"), callbackSignature(r.secret, d.Body))
	r.t.Decided("D5.4.webhook", id == d.id(), "webhook-id: got %q, want %s", id, d.id())
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	off := d.At.Sub(time.Unix(seconds, 0))
	r.t.Decided("D5.4.webhook", err == nil && off.Abs() < time.Minute, "webhook-timestamp: %q is not the time of the attempt", timestamp)
	r.t.Decided("D5.4.webhook", d.Header.Get("Webhook-Signature") == webhookSignature(r.secret, id, timestamp, d.Body), "webhook-signature is not that of the body")
}

// Reaches checks that the deployment can reach this machine. It executes a component that calls a
// server here, and has a callback sent to a receiver here. It returns an error if either request
// does not arrive.
func (t *Target) Reaches(ctx context.Context) error {
	err := Run(ctx, t, func(t *Trial) {
		upstream := t.Upstream(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		e := t.Execute(Fetch(upstream).Waiting(15000))
		t.Check(e.Status == "COMPLETED", "a component that calls this machine ended with %s: %s", e.Status, e.Error)
	})
	if err != nil {
		return err
	}
	return Run(ctx, t, func(t *Trial) {
		call := RandomUUID()
		call.CallbackURL = t.Receiver("").URL
		answer := t.Post(Components, call)
		t.Check(answer.Status == http.StatusOK, "a callback to this machine is rejected: %s", answer.Body)
		id := Decode[api.ComponentExecution](t, answer).ID.String()
		t.Until("a callback to it", 30*time.Second, func() bool {
			callback := t.Record(id).Callback
			t.Check(callback.AttemptCount == 0 || callback.DeliveredAt != nil, "a callback to this machine fails: %s", callback.LastError)
			return callback.DeliveredAt != nil
		})
	})
}
