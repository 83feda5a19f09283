package cli

import (
	"strings"
	"testing"
	"time"
)

func TestDoctorComparesClocks(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		want  level
		text  string
	}{
		{0, "", ""},
		{3 * time.Second, doubt, "ahead of this machine's"},
		{-3 * time.Second, doubt, "behind this machine's"},
		{10 * time.Minute, wrong, "start no work"},
		{-10 * time.Minute, wrong, "start no work"},
	} {
		found := compareClocks(time.Now(), time.Now().Add(c.ahead), 5*time.Second)
		if c.want == "" {
			if len(found) > 0 {
				t.Errorf("clock ahead by %v: unexpected findings %v", c.ahead, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Level != c.want || !strings.Contains(found[0].Text, c.text) {
			t.Errorf("clock ahead by %v: unexpected findings %v", c.ahead, found)
		}
	}
}
