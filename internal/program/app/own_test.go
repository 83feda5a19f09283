package app

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// A component could otherwise sign calls through the proxy of weft dev, or reach the database. The
// network of the listeners is allowed.
func TestComponentsNeverReachWeftItself(t *testing.T) {
	t.Parallel()
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	w := startWhole(t, func(cfg *Config) { cfg.OwnAddresses = []string{proxy.Addr().String()} })
	for name, address := range map[string]string{
		"API": w.app.URL(), "operations": w.app.OpsURL(), "proxy": "http://" + proxy.Addr().String(),
	} {
		request := api.ExecuteComponentRequest{
			Module: "API_CALL", Input: []byte(`{"headers":{}}`), WaitForMs: new(int32(15000)),
			Config: fmt.Appendf(nil, `{"apiUrl":%q,"method":"GET"}`, address+"/healthz"),
		}
		record, raw, err := w.client.Execute(t.Context(), request, nil)
		if err != nil {
			t.Fatal(err)
		}
		var failed struct {
			Code, Message string
			Retryable     bool
		}
		if err := json.Unmarshal(record.Error, &failed); err != nil || failed.Code != component.CodeAddressBlocked || failed.Retryable || !strings.Contains(failed.Message, "belongs to Weft itself") {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

func TestPoolsKnowTheAddressesOfTheirServers(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u@a.example,b.example:6000/weft?sslmode=disable": "a.example:5432 b.example:6000",
		"postgres://u@[::1]/weft?sslmode=disable":                    "[::1]:5432",
		pgtest.DSN(t): "",
	} {
		p, err := openPools(t.Context(), Config{DatabaseURL: dsn, Addr: "127.0.0.1:0"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.addresses(), " "); got != want {
			t.Errorf("%s: got %q", dsn, got)
		}
		p.close()
	}
}
