package app

import (
	"io"
	"log/slog"
	"testing"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// A workspace's share is nine tenths of the slots that processes record. Each process records how
// many executions it can start at once.
func TestAProcessRecordsTheSlotsThatItCanFill(t *testing.T) {
	t.Parallel()
	ring, err := keyring(goodKey, "")
	if err != nil {
		t.Fatal(err)
	}
	for way, c := range map[string]struct {
		addr string
		want int
	}{"API and workers": {"127.0.0.1:0", 40}, "workers only": {"", 20}} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			cfg := Config{DatabaseURL: pgtest.DSN(t), Keyring: ring, Addr: c.addr, Work: true, Workers: 20}
			a, err := Start(t.Context(), cfg, telemetry.NewLogger(io.Discard, slog.LevelError))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Stop(t.Context())
			var slots int
			if err := a.pools.system.QueryRow(t.Context(), "SELECT slots FROM workers").Scan(&slots); err != nil || slots != c.want {
				t.Errorf("got %d slots (%v), want %d", slots, err, c.want)
			}
		})
	}
}
