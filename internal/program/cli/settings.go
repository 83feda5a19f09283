package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/weft-automation/weft/internal/program/app"
)

// checkSettings reads the environment as `weft serve` and `weft work` would. `weft dev` uses flags
// instead, so if DATABASE_URL is not set, checkSettings reports only unknown variables.
func (d *doctorCommand) checkSettings(_ context.Context, s *session) []finding {
	environ := s.environ
	if s.getenv("DATABASE_URL") == "" {
		standIn := []string{"DATABASE_URL=postgres://x/x", "WEFT_MASTER_KEY=" + standInKey()}
		environ = append(standIn, environ...)
	}
	cfg, err := app.ConfigFromEnv(environ)
	if err == nil {
		err = cfg.CheckConnections()
	}
	if err != nil {
		var all []finding
		for line := range strings.Lines(err.Error()) {
			all = append(all, finding{wrong, strings.TrimSpace(line), "correct or unset the variable"})
		}
		return all
	}
	return []finding{{fine, "the environment is understood", ""}}
}

// standInKey returns a master key that is never used for sealing.
func standInKey() string {
	key := make([]byte, 32)
	rand.Read(key) //nolint:errcheck // crashes the program instead of failing
	return base64.StdEncoding.EncodeToString(key)
}
