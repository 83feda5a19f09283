package ratelimit

import "encoding/binary"

// The stored form of a usage is the version, at, debt and, if there are slots, the second before
// the first one and the slots. A slot is the mark, the seconds since the slot before, and n. All
// numbers are varints.
//
// Earlier binaries store one slot for each second, most of them in one byte without a mark: the
// high half is the distance less one, the low half is n. They can read the form above, and
// decode reads theirs, so no history is lost when versions share a store. After a release, the
// one-byte form can go: no state is older than an hour.
const (
	version = 1
	mark    = 0xF0
)

func (u *usage) encode() []byte {
	b := []byte{version}
	b = binary.AppendUvarint(b, uint64(u.at))
	b = binary.AppendUvarint(b, uint64(u.debt))
	if len(u.slots) == 0 {
		return b
	}
	before := u.slots[0].latest - 1
	b = binary.AppendUvarint(b, uint64(before))
	for _, s := range u.slots {
		b = append(b, mark)
		b = binary.AppendUvarint(b, uint64(s.latest-before))
		b = binary.AppendUvarint(b, uint64(s.n))
		before = s.latest
	}
	return b
}

// decode returns the zero usage if data is empty or malformed.
func decode(data []byte) usage {
	valid := len(data) > 0 && data[0] == version
	next := func(most uint64) int64 {
		value, n := binary.Uvarint(data)
		if valid = valid && n > 0 && value <= most; !valid {
			return 0
		}
		data = data[n:]
		return int64(value)
	}
	next(version)
	u, second := usage{at: next(1 << 60), debt: next(1 << 60)}, int64(0)
	if len(data) > 0 {
		second = next(1 << 60)
	}
	for valid && len(data) > 0 {
		first := data[0]
		data = data[1:]
		apart, n := int64(first>>4)+1, int64(first&0xF)
		if first == mark {
			apart, n = next(1<<40), next(1<<40)
		}
		valid = valid && apart > 0 && n > 0
		second += apart
		u.count(second, n)
	}
	if !valid {
		return usage{}
	}
	return u
}
