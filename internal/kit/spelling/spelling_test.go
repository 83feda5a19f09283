package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     int
	}{{"", "", 0}, {"HASH", "HASH", 0}, {"", "HASH", 4}, {"HASH", "", 4}, {"HASH", "HSAH", 2}, {"HAS", "HASH", 1}, {"kitten", "sitting", 3}} {
		if got := Distance(c.from, c.to); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.from, c.to, got, c.want)
		}
	}
}
