package strictjson

import "hash/maphash"

// hashSet tells whether a text was added before, in 8 to 16 bytes for each. It
// keeps 64-bit hashes under a seed of its own, so among the most members that a
// body may have it takes two different texts for one with a chance below
// 1 in 1,000,000,000, and nobody can prepare such a pair.
type hashSet struct {
	seed  maphash.Seed
	slots []uint64 // open addressing; 0 is a free one
	used  int
}

func newHashSet() *hashSet {
	return &hashSet{seed: maphash.MakeSeed(), slots: make([]uint64, 64)}
}

// add says whether text was not there yet.
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
