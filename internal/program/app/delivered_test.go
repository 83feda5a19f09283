package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// delivered waits until a record shows the delivery of its callback.
func (n *tenant) delivered(t *testing.T, record string) {
	t.Helper()
	waittest.Until(t, "the callback to be delivered", func() bool {
		return strings.Contains(n.sign(t, http.MethodGet, record, nil).body, `"deliveredAt":"`)
	})
}
