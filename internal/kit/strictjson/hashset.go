package strictjson

import "hash/maphash"

// hashSet is a set of strings that needs 8 to 16 bytes for each string. It stores 64-bit hashes
// with a random seed. For the maximum number of fields in a body, the chance that two different
// strings have the same hash is below 1 in 1,000,000,000. Attackers can't prepare such a pair.
type hashSet struct {
	seed  maphash.Seed
	slots []uint64 // open addressing; 0 marks a free slot
	used  int
}

func newHashSet() *hashSet {
	return &hashSet{seed: maphash.MakeSeed(), slots: make([]uint64, 64)}
}

// add adds text and reports whether it is new.
func (h *hashSet) add(text string) bool {
	if h.used*5 > len(h.slots)*4 {
		old := h.slots
		h.slots = make([]uint64, 2*len(old))
		for _, sum := range old {
			if sum != 0 {
				h.place(sum)
			}
		}
	}
	if !h.place(max(1, maphash.String(h.seed, text))) {
		return false
	}
	h.used++
	return true
}

func (h *hashSet) place(sum uint64) bool {
	mask := uint64(len(h.slots) - 1)
	for i := sum & mask; ; i = (i + 1) & mask {
		switch h.slots[i] {
		case 0:
			h.slots[i] = sum
			return true
		case sum:
			return false
		}
	}
}
