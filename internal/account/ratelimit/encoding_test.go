package ratelimit

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestUsageSurvivesEncoding(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		var u usage
		limits := Limits{RPS: 1 + random.IntN(1000), RPH: 1 + random.IntN(100_000)}
		now := epoch
		for range random.IntN(50) {
			now = now.Add(time.Duration(random.IntN([]int{1, 100, 1000, 20_000, 4_000_000}[random.IntN(5)])) * time.Millisecond)
			for range random.IntN(30) {
				u.take(now, 1+random.IntN(2), limits)
			}
		}
		data := u.encode()
		again := decode(data)
		if len(u.slots) == 0 {
			u.slots, again.slots = nil, nil
		}
		if !reflect.DeepEqual(u, again) {
			t.Fatalf("%+v became %+v", u, again)
		}
		if earlier := decodeEarlier(t, data); !slices.Equal(earlier, u.slots) {
			t.Fatalf("earlier binaries read %+v of %+v", earlier, u)
		}
	}
}

// decodeEarlier reads the slots of a state as the binaries before the slots of 30 s do.
func decodeEarlier(t *testing.T, data []byte) (seconds []slot) {
	t.Helper()
	next := func() int64 {
		value, n := binary.Uvarint(data)
		if n <= 0 {
			t.Fatal("earlier binaries cannot read the state")
		}
		data = data[n:]
		return int64(value)
	}
	if version := next(); version != 1 {
		t.Fatalf("version %d", version)
	}
	_, _ = next(), next()
	if len(data) == 0 {
		return nil
	}
	second := next()
	for len(data) > 0 {
		apart, n := int64(data[0]>>4)+1, int64(data[0]&0xF)
		marked := data[0] == 0xF0
		if data = data[1:]; marked {
			apart, n = next(), next()
		}
		if apart < 1 || n < 1 {
			t.Fatal("earlier binaries reject the state")
		}
		second += apart
		seconds = append(seconds, slot{second, n})
	}
	return seconds
}

// In a rolling upgrade, both versions charge the same row. The history of earlier binaries,
// stored in one byte for most seconds, counts in full and for at least as long as before.
func TestRL02TheHistoryOfEarlierBinariesCounts(t *testing.T) {
	second := epoch.Unix()
	data := binary.AppendUvarint([]byte{version}, uint64(epoch.UnixMicro()))
	data = binary.AppendUvarint(data, 3*unit)
	data = binary.AppendUvarint(data, uint64(second-100-1))
	data = append(data, 0x02)                            // 2 requests at -100
	data = append(data, 14<<4|15)                        // 15 at -85
	data = append(data, 0xF0, 70, 0x80|300&0x7F, 300>>7) // 300 at -15
	u := decode(data)
	if want := []slot{{second - 100, 2}, {second - 85, 15}, {second - 15, 300}}; u.debt != 3*unit || u.sum != 317 || !slices.Equal(u.slots, want) {
		t.Errorf("%+v, want the slots %v", u, want)
	}
	if d := u.take(epoch, 1, Limits{RPH: 317}); d.Allowed || d.Wait < time.Hour-100*time.Second {
		t.Errorf("%+v", d)
	}
}

func TestAFullHourIsSmall(t *testing.T) {
	var u usage
	for now := epoch; now.Sub(epoch) < 2*time.Hour; now = now.Add(100 * time.Millisecond) {
		u.take(now, 1, Limits{RPS: 10, RPH: 36_000})
	}
	if data := u.encode(); len(data) > 600 {
		t.Errorf("%d bytes", len(data))
	}
}

func FuzzDecode(f *testing.F) {
	var u usage
	u.take(epoch, 2, Limits{RPS: 5, RPH: 9000})
	f.Add(u.encode())
	f.Add([]byte{version, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		u := decode(data)
		d := u.take(epoch, 1, Limits{RPS: 5, RPH: 9000})
		if d.Wait < 0 || d.Wait > (window+1)*time.Second || u.debt < 0 || u.sum < 0 {
			t.Errorf("%+v of %+v", d, u)
		}
	})
}
