package ratelimit

import "encoding/binary"

// A usage is stored as the version, at and debt. If there are slots, the second before the first
// slot and the slots follow. A slot consists of a mark, the seconds since the previous slot, and
// n. All numbers are varints.
//
// Earlier binaries store one slot for each second. Most of these slots take one byte without a
// mark: the high half is the distance minus one, the low half is n. Earlier binaries can read
// the new form, and decode reads the old form, so no history is lost when versions share a
// store. The one-byte form can be removed after a release: no state is older than an hour.
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
