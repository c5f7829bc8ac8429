package audit

import (
	"slices"
	"strconv"
	"sync"
)

// changeKey is the annotation with the resourceVersions of the changes that a request has made.
const changeKey = "gapless.io/resource-version"

// maxRanges bounds the annotation: with resourceVersions of ten digits it has at most 22 KB. Those that a deletion of a
// collection gets are in a row unless others write meanwhile.
const maxRanges = 1000

// written are the resourceVersions of the changes that a request has made. Several goroutines may use it at once.
type written struct {
	mu sync.Mutex
	// mu guards all.
	all []uint64
}

func (w *written) add(rv uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, rv)
}

// String is like "7", "7-9,12", or, if there are more than maxRanges, "…,7000,+34": 34 changes later than that are left
// out. It is "" for none.
func (w *written) String() string {
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	slices.Sort(all)
	all = slices.Compact(all)
	var text []byte
	for ranges := 0; len(all) > 0; ranges++ {
		if ranges > 0 {
			text = append(text, ',')
		}
		if ranges == maxRanges {
			text = strconv.AppendInt(append(text, '+'), int64(len(all)), 10)
			break
		}
		n := 1
		for n < len(all) && all[n] == all[n-1]+1 {
			n++
		}
		text = strconv.AppendUint(text, all[0], 10)
		if n > 1 {
			text = strconv.AppendUint(append(text, '-'), all[n-1], 10)
		}
		all = all[n:]
	}
	return string(text)
}
