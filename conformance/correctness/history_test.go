package correctness_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/testing/correctness"
)

// history is what clients have seen.
type history struct {
	// mu guards everything.
	mu      sync.Mutex
	writes  map[uint64]correctness.Operation // by the resourceVersion of the answer
	twice   []uint64                         // that two writes were answered with
	reads   []read
	streams []correctness.WatchOperation
	chains  []chain
	expired []expiry
	cut     int // reads and watches that a restart has ended
}

// read is one GET or LIST.
type read struct {
	correctness.Operation
	// known is the highest resourceVersion that was acknowledged before the read began.
	known uint64
}

// chain is a watch that was resumed where it had ended, as often as it ended.
type chain struct {
	correctness.WatchOperation
	streams int
	// caughtUp says that its last bookmark is at the end of the run.
	caughtUp bool
}

// expiry is a 410.
type expiry struct {
	asked  uint64 // the resourceVersion that is too old
	marked uint64 // the highest up to which a compaction had been asked for
}

func (h *history) wrote(rv uint64, op correctness.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writes == nil {
		h.writes = map[uint64]correctness.Operation{}
	}
	if _, is := h.writes[rv]; is {
		h.twice = append(h.twice, rv)
	}
	h.writes[rv] = op
}

func (h *history) saw(r read) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads = append(h.reads, r)
}

func (h *history) watched(op correctness.WatchOperation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = append(h.streams, op)
}

func (h *history) followed(c chain) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.chains = append(h.chains, c)
}

func (h *history) refused(e expiry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expired = append(h.expired, e)
}

func (h *history) cutOff() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut++
}

// replay plays the writes on upstream's model, in the order of their
// resourceVersions. It fails if one is missing, there twice, or not what the model
// does, and if a write that began after another was answered is ordered before it.
func (h *history) replay(first uint64) (*correctness.Replay, error) {
	if len(h.twice) > 0 {
		return nil, fmt.Errorf("two writes with one resourceVersion: %v", h.twice)
	}
	var operations []correctness.Operation
	for i, rv := range slices.Sorted(maps.Keys(h.writes)) {
		if want := first + uint64(i); rv != want {
			return nil, fmt.Errorf("there is no write with resourceVersion %d, but with %d", want, rv)
		}
		operations = append(operations, h.writes[rv])
	}
	for i, earlier := range operations {
		for _, later := range operations[i+1:] {
			if later.End.Before(earlier.Start) {
				return nil, fmt.Errorf("%s %s was answered before %s %s began, and has a later resourceVersion",
					later.Request.Op, later.Request.Key, earlier.Request.Op, earlier.Request.Key)
			}
		}
	}
	model := correctness.NewEmptyModel("", newPod, newList, storage.APIObjectVersioner{})
	model.ResourceVersion = first - 1
	replay, err := correctness.NewReplay(model, operations)
	if err != nil {
		return nil, fmt.Errorf("replay the writes: %w", err)
	}
	return replay, nil
}

// superseded says that a pod was changed or deleted after one resourceVersion, and
// not after another.
func (h *history) superseded(after, upTo uint64) bool {
	for rv := after + 1; rv <= upTo; rv++ {
		op := h.writes[rv].Request.Op
		if op == correctness.OpUpdate || op == correctness.OpDelete {
			return true
		}
	}
	return false
}

func newPod() runtime.Object  { return &example.Pod{} }
func newList() runtime.Object { return &example.PodList{} }

// rvOf is the resourceVersion of an event; 0 for an ERROR.
func rvOf(e watch.Event) uint64 {
	rv, err := storage.APIObjectVersioner{}.ObjectResourceVersion(e.Object)
	if err != nil {
		return 0
	}
	return rv
}
