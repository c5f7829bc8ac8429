package revlog

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// syncBounds are the upper bounds of the buckets in which the durations of syncs are counted, in seconds: those of
// etcd's etcd_disk_wal_fsync_duration_seconds.
func syncBounds() []float64 {
	return []float64{0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192}
}

// Syncs says how long syncs of segments took, as a histogram.
type Syncs struct {
	Count   uint64
	Seconds float64            // of all
	Buckets map[float64]uint64 // how many took no longer than so many seconds
}

// syncs counts syncs. It is safe for concurrent use.
type syncs struct {
	counts [15]atomic.Uint64 // one more than there are bounds
	nanos  atomic.Int64
}

// sync makes a file durable, and counts it.
func (s *syncs) sync(f disk.File) error {
	began := time.Now()
	err := f.Sync()
	took := time.Since(began)
	at, _ := slices.BinarySearch(syncBounds(), took.Seconds())
	s.counts[at].Add(1)
	s.nanos.Add(int64(took))
	return err
}

func (s *syncs) read() Syncs {
	out := Syncs{Seconds: time.Duration(s.nanos.Load()).Seconds(), Buckets: map[float64]uint64{}}
	for i, bound := range syncBounds() {
		out.Count += s.counts[i].Load()
		out.Buckets[bound] = out.Count
	}
	out.Count += s.counts[len(s.counts)-1].Load()
	return out
}
