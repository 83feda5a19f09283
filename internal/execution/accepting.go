package execution

import (
	"errors"
	"time"

	"github.com/weft-automation/weft/internal/postgres"
)

// refusedFor is how long a refused write speaks against this process: until
// then nobody may have tried another.
const refusedFor = 5 * time.Second

// note remembers whether the database took the last acceptance.
func (s *Service) note(err error) {
	switch {
	case postgres.Unavailable(err):
		s.refused.Store(time.Now().UnixNano())
	case err == nil:
		s.refused.Store(0)
	}
}

// Accepts returns an error while executions cannot be accepted although the
// database answers: its disk is full, say. It is known from the last try.
func (s *Service) Accepts() error {
	if time.Since(time.Unix(0, s.refused.Load())) < refusedFor {
		return errors.New("the database refused the last execution")
	}
	return nil
}
