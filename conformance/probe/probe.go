// Package probe is the client side of the conformance cases: an HTTP client that
// signs requests and validates every response against openapi.yaml, a reader of
// event streams, receivers of callbacks, and the trial that a case runs in.
//
// Package probe depends on the contract, not on the code of the service. It has a separate
// implementation of signing, callback verification and stream parsing, so that it shares no mistake
// with the service. Invariant: A case gets a response only after the response was validated against
// the document.
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/weft-automation/weft/gen/api"
)

// Credentials are the credentials of a client, in the format of credentials.json.
type Credentials struct {
	BaseURL     string `json:"baseUrl"`
	WorkspaceID string `json:"workspaceId"`
	APIKey      string `json:"apiKey"`
	APISecret   string `json:"apiSecret"`

	// An owner of the workspace; empty if unknown.
	AdminEmail    string `json:"adminEmail"`
	AdminPassword string `json:"adminPassword"`
}

// ReadCredentials reads a credentials.json.
func ReadCredentials(path string) (Credentials, error) {
	var c Credentials
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read credentials: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read credentials %s: %w", path, err)
	}
	return c, nil
}

// Target is a deployment under test. The field of a feature that the deployment lacks is zero, and
// the cases that need the feature are not run.
type Target struct {
	Credentials
	Spec *Spec
	HTTP *http.Client // shared by all trials; redirects are not followed

	sessions *sessions // shared by all trials, and by copies of the target
	made     *register // by all trials, and through copies of the target

	Foreign *Credentials // of another workspace
	Viewer  *Credentials // a viewer of this workspace
	Poor    *Credentials // of a workspace without plan credits, and with paid credits for two executions

	// Authority issues the certificates of callback receivers; the deployment
	// trusts it. If it is nil, receivers use plain HTTP.
	Authority *Authority

	// Near means that the deployment can reach the loopback of this machine, and that its
	// configuration allows this.
	Near bool

	// Forwarded means that the deployment trusts X-Forwarded-For from this machine, so that
	// every trial can have its own address.
	Forwarded bool

	// Schedule is the delay before each callback attempt.
	Schedule []time.Duration

	// NewKey creates a key of the workspace and returns it with a function that revokes it.
	NewKey func(context.Context) (Credentials, func(context.Context) error, error)

	// NewWorkspace creates a workspace with a key, an owner and a viewer, for a case
	// that exhausts its limits.
	NewWorkspace func(context.Context, Terms) (Credentials, error)

	// Grant adds paid credits to a workspace.
	Grant func(ctx context.Context, workspaceID string, credits int) error

	// Host is the name or address under which the deployment reaches this machine, "" for
	// loopback.
	Host string

	// Lenient means that where the contract leaves a choice, the deployment may differ from Weft's
	// decisions. Departures are recorded, and the case continues.
	Lenient bool

	// Choices means that the case proves only decisions. If such a case checks a decision and finds
	// a departure, the case fails.
	Choices bool

	// Unhurried is for a slow or busy machine: waits are not limited and
	// latencies are not checked.
	Unhurried bool

	// Tamper changes a delivery before the receiver verifies it.
	Tamper func(*Delivery)

	// Deliver returns the deliveries that arrive at a receiver instead of the given one.
	Deliver func(Delivery) []Delivery
}

// Terms are the plan and the limits of a new workspace.
type Terms struct {
	Plan string
	Paid int // initial paid credits

	// Limits agreed for the workspace; nil means the limits of the plan.
	RPS, RPH, Waits     *int32
	Credits, UsageLimit *int   // per month
	Storage             *int64 // bytes per month

	// Then is an earlier time at which the workspace existed and had used Spent
	// credits. Zero means that it is new.
	Then  time.Time
	Spent int
}

// NewTarget returns a deployment with the given credentials and the default
// settings.
func NewTarget(c Credentials) (*Target, error) {
	spec, err := LoadSpec()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = patience
	return &Target{
		Credentials: c,
		Spec:        spec,
		sessions:    newSessions(),
		made:        &register{},
		HTTP: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Schedule: []time.Duration{
			0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
			14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		},
	}, nil
}

// Reach is like NewTarget, for a running deployment. A deployment on this machine is
// assumed to be allowed to reach it.
func Reach(c Credentials) (*Target, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a deployment", c.BaseURL)
	}
	target, err := NewTarget(c)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(base.Hostname())
	target.Near = base.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if c.AdminPassword != "" {
		target.NewKey = target.keyByOwner
	}
	return target, nil
}

// keyByOwner creates a key as the owner of the workspace.
func (t *Target) keyByOwner(ctx context.Context) (key Credentials, revoke func(context.Context) error, err error) {
	key = t.Credentials
	path := Workspace(key.WorkspaceID) + "/api-keys"
	var token, id string
	err = Run(ctx, t, func(trial *Trial) {
		token = trial.SignIn()
		made := Decode[api.CreatedAPIKey](trial, trial.Do(Request{
			Method: http.MethodPost, Path: path, Bearer: token,
			Body: trial.JSON(map[string]any{"label": "conformance", "allowedWorkflowIds": []string{}}),
		}))
		id, key.APIKey, key.APISecret = made.ID.String(), made.APIKey, made.APISecret
	})
	return key, func(ctx context.Context) error {
		return Run(ctx, t, func(trial *Trial) {
			answer := trial.Do(Request{Method: http.MethodDelete, Path: path + "/" + id, Bearer: token})
			trial.Equal("revoke a key", answer.Status, http.StatusOK)
		})
	}, err
}

// Need is a requirement that not every deployment meets.
type Need string

// The needs of cases.
const (
	NeedNear      Need = "a deployment that may reach this machine"
	NeedForeign   Need = "credentials of a second workspace"
	NeedPoor      Need = "credentials of a workspace with two credits"
	NeedForwarded Need = "a deployment that believes X-Forwarded-For from here"
	NeedOwner     Need = "an owner's e-mail address and password"
	NeedViewer    Need = "the password of a member who may only look"
	NeedNewKey    Need = "a way to make and revoke keys"
	NeedWorkspace Need = "a way to make workspaces and to give them credits"
	NeedSchedule  Need = "a callback schedule of at most ten seconds"
	NeedPause     Need = "a callback schedule with a delay of 4 to 60 seconds"
)

// Offers reports whether the deployment meets a need.
func (t *Target) Offers(need Need) bool {
	switch need {
	case NeedNear:
		return t.Near
	case NeedForeign:
		return t.Foreign != nil
	case NeedPoor:
		return t.Poor != nil
	case NeedForwarded:
		return t.Forwarded
	case NeedOwner:
		return t.AdminPassword != ""
	case NeedViewer:
		return t.Viewer != nil
	case NeedNewKey:
		return t.NewKey != nil
	case NeedWorkspace:
		return t.NewWorkspace != nil && t.Grant != nil
	case NeedSchedule:
		var whole time.Duration
		for _, delay := range t.Schedule {
			whole += delay
		}
		return whole <= 10*time.Second
	case NeedPause:
		failures, _ := t.Pause()
		return failures > 0
	}
	return false
}

// Pause finds the first delay in the callback schedule during which a case has time to act. It
// returns the number of attempts before that delay, and the delay. It returns 0 if no such delay
// comes within ten seconds.
func (t *Target) Pause() (attempts int, delay time.Duration) {
	var before time.Duration
	for i, delay := range t.Schedule {
		switch {
		case before > 10*time.Second || delay > time.Minute:
			return 0, 0
		case i > 0 && delay >= 4*time.Second:
			return i, delay
		}
		before += delay
	}
	return 0, 0
}
