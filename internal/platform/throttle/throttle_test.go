package throttle_test

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/platform/throttle"
)

func TestFailuresEmptyTheBucketAndTimeFillsIt(t *testing.T) {
	now := time.Now()
	l := throttle.NewLimiter[string](3, 0.5, func() time.Time { return now })
	for range 3 {
		if wait := l.Take("a"); wait != 0 {
			t.Fatalf("wait %v with tokens left", wait)
		}
	}
	if wait := l.Take("a"); wait != 2*time.Second {
		t.Errorf("wait %v, want 2s", wait)
	}
	if wait := l.Wait("b"); wait != 0 {
		t.Errorf("another source waits %v", wait)
	}
	l.Return("a")
	if wait := l.Take("a"); wait != 0 {
		t.Errorf("wait %v after a token was returned", wait)
	}
	now = now.Add(l.Wait("a"))
	if wait := l.Take("a"); wait != 0 {
		t.Errorf("after waiting as required, the wait is %v", wait)
	}
	now = now.Add(time.Hour)
	l.Count("a")
	l.Return("a")
	l.Return("a")
	for range 3 {
		l.Take("a")
	}
	if l.Take("a") == 0 {
		t.Error("Return fills the bucket beyond its size")
	}
}

func TestConcurrentAttemptsDoNotExceedTheLimit(t *testing.T) {
	l := throttle.NewLimiter[string](20, 0.001, time.Now)
	var mu sync.Mutex
	var group sync.WaitGroup
	passed := 0
	for range 500 {
		group.Go(func() {
			if l.Take("a") == 0 {
				mu.Lock()
				defer mu.Unlock()
				passed++
			}
		})
	}
	group.Wait()
	if passed != 20 {
		t.Errorf("%d passed, want 20", passed)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	l := throttle.NewLimiter[int](1, 1, func() time.Time { return now })
	for i := range 120_000 {
		l.Count(i)
		now = now.Add(time.Microsecond)
	}
	if l.Wait(119_999) == 0 {
		t.Error("the last one to fail was forgotten")
	}
}

func TestSubscribersAreIPv4AddressesAndIPv6Networks(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false}, {"::ffff:192.0.2.1", "192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true}, {"2001:db8::1", "2001:db8:0:1::1", false}, {"fe80::1%eth0", "fe80::1", true},
	} {
		if same := throttle.Subscriber(netip.MustParseAddr(tc.a)) == throttle.Subscriber(netip.MustParseAddr(tc.b)); same != tc.same {
			t.Errorf("%s and %s: the same is %t", tc.a, tc.b, same)
		}
	}
	throttle.Subscriber(netip.Addr{}) // an unknown address must not panic
}
