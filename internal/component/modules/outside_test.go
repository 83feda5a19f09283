package modules

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/egress/egresstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// addressFields are the fields with the URL that a module connects to.
var addressFields = []string{"jsonRpcUrl", "apiUrl"}

// connecting is a module that connects to a URL from the caller, with its example call.
type connecting struct {
	component.Module
	input, config map[string]any
	field         string
	inConfig      bool
}

// connectingModules returns all modules whose schemas have a URL field. It finds them by their
// schemas, so the tests cover new modules automatically.
func connectingModules(t *testing.T, guard *egress.Guard) map[string]connecting {
	t.Helper()
	found := map[string]connecting{}
	for _, module := range All(guard) {
		d := module.Describe()
		for part, raw := range map[string]json.RawMessage{"input": d.Input, "config": d.Config} {
			var schema struct {
				Properties map[string]struct{ Format string }
			}
			if err := json.Unmarshal(raw, &schema); err != nil {
				t.Fatalf("%s: %v", d.Module, err)
			}
			for name, property := range schema.Properties {
				if !slices.Contains(addressFields, name) {
					if property.Format == "uri" {
						t.Errorf("%s has the address %s.%s, which no test here knows", d.Module, part, name)
					}
					continue
				}
				found[d.Module] = connecting{module, example(t, d.Input), example(t, d.Config), name, part == "config"}
			}
		}
	}
	if len(found) < 15 {
		t.Fatalf("only these connect: %v", slices.Sorted(maps.Keys(found)))
	}
	return found
}

func example(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var schema struct{ Examples []map[string]any }
	if err := json.Unmarshal(raw, &schema); err != nil || len(schema.Examples) == 0 {
		t.Fatalf("no example in %s: %v", raw, err)
	}
	return schema.Examples[0]
}

// run runs the module with a URL until it has an output or an error.
func (c connecting) run(t *testing.T, ctx context.Context, registry *component.Registry, address string) (json.RawMessage, *component.Error) {
	t.Helper()
	parts := []map[string]any{maps.Clone(c.input), maps.Clone(c.config)}
	if c.inConfig {
		parts[1][c.field] = address
	} else {
		parts[0][c.field] = address
	}
	name := c.Describe().Module
	call := component.Call{ExecutionID: uuid.Must(uuid.NewV7()), Attempt: 1, Input: encode(t, parts[0]), Config: encode(t, parts[1])}
	for {
		result, err := registry.Run(ctx, name, call)
		if err != nil {
			failed, ok := err.(*component.Error)
			if !ok {
				t.Fatalf("%s: error of type %T: %v", name, err, err)
			}
			return nil, failed
		}
		if result.Wait == nil {
			return result.Output, nil
		}
		call.State = result.Wait.State
	}
}

func encode(t *testing.T, value any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func table(t *testing.T, modules ...component.Module) *component.Registry {
	t.Helper()
	registry, err := component.NewRegistry(modules...)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// second is another loopback address, which a guard can allow separately.
const second = "127.0.0.2"

func listenOnSecond(t *testing.T, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", second+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func TestNoModuleReachesAPrivateAddress(t *testing.T) {
	t.Parallel()
	silent := egresstest.NewSilent(t)
	guard := egress.New(egress.Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix(second + "/32")},
		Resolver: egresstest.Resolver(t, func(name string) []netip.Addr {
			if strings.HasPrefix(name, "both.") { // one of the addresses is public
				return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")}
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}),
	})
	t.Cleanup(guard.Close)
	port := silent.Port()
	addresses := []string{
		"http://" + silent.Address, "https://" + silent.Address, "https://localhost:" + port, "https://[::1]:" + port, "https://[::ffff:127.0.0.1]:" + port, "https://0.0.0.0:" + port,
		"https://2130706433:" + port, "https://inside.example:" + port, "https://both.example:" + port,
		"https://10.0.0.1:8545", "https://172.16.0.1", "https://192.168.1.1", "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1", "https://[fd00::1]", "https://[fe80::1]",
	}
	for _, target := range []string{"https://" + silent.Address, "http://" + silent.Address, "https://inside.example:" + port, "https://10.0.0.1", "https://169.254.169.254/"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			addresses = append(addresses, listenOnSecond(t, http.RedirectHandler(target, status)))
		}
	}
	registry := table(t, All(guard)...)
	for name, module := range connectingModules(t, guard) {
		for _, address := range addresses {
			output, failed := module.run(t, t.Context(), registry, address)
			// A redirect that would send a body fails before its target is checked.
			ended := failed != nil && (failed.Code == component.CodeAddressBlocked || strings.Contains(string(failed.Details), `"redirect"`))
			if !ended || failed.Retryable {
				t.Errorf("%s at %s: %s, %v", name, address, output, failed)
			}
		}
	}
	if silent.Connections() != 0 {
		t.Errorf("%d connections were made", silent.Connections())
	}
}

func onLoopback(t *testing.T) *egress.Guard {
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	return guard
}

func TestNoModuleReadsBeyondItsLimit(t *testing.T) {
	t.Parallel()
	const slack = 8 << 20 // what the reader's socket buffer may hold; the sender's is small
	for name, module := range connectingModules(t, onLoopback(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			server := httptest.NewUnstartedServer(egresstest.Endless(func(bytes int) { sent.Add(int64(bytes)) }))
			server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
				if state == http.StateNew {
					_ = conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
				}
			}
			server.Start()
			t.Cleanup(server.Close)
			output, failed := module.run(t, t.Context(), table(t, module.Module), server.URL)
			if failed == nil || failed.Code != component.CodeUpstream || !strings.Contains(string(failed.Details), `"too_large"`) || !strings.Contains(failed.Message, fmt.Sprint(upstream.MaxAnswer)) {
				t.Errorf("%.200s, %v", output, failed)
			}
			server.Close()
			if sent.Load() > upstream.MaxAnswer+slack {
				t.Errorf("%d bytes were sent", sent.Load())
			}
		})
	}
}

// hurried wraps a module and shortens its timeout.
type hurried struct {
	component.Module
	timeout time.Duration
}

func (h hurried) Describe() component.Descriptor {
	d := h.Module.Describe()
	d.Timeout = h.timeout
	return d
}

func TestEveryModuleStopsAtItsTimeout(t *testing.T) {
	t.Parallel()
	for name, module := range connectingModules(t, onLoopback(t)) {
		for kind, answer := range egresstest.Slow {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(answer)
				t.Cleanup(server.Close)
				const timeout = 150 * time.Millisecond
				registry := table(t, hurried{module.Module, timeout})
				output, failed := module.run(t, t.Context(), registry, server.URL)
				if failed == nil || failed.Code != component.CodeTimeout || !failed.Retryable {
					t.Errorf("%s, %v", output, failed)
				}
				// The abandoned call finishes soon afterwards.
				waittest.Until(t, "no call is left", func() bool { return registry.Stuck() == 0 })
			})
		}
	}
}
