package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are a sixteenth wide: a quantile is
// right to 6 %. The zero value is empty. One goroutine may use it.
type Histogram struct {
	counts [64 * 16]uint32
	n      int64
}

// Add counts one duration; a negative one counts as none.
func (h *Histogram) Add(d time.Duration) { h.AddN(d, 1) }

// AddN counts the same duration n times.
func (h *Histogram) AddN(d time.Duration, n int64) {
	v := uint64(max(d, 0)) / 1000 // microseconds
	h.counts[bucket(v)] += uint32(n)
	h.n += n
}

// bucket maps 0 to 31 to themselves, and above that keeps the four bits after the
// first.
func bucket(v uint64) int {
	shift := max(bits.Len64(v)-5, 0)
	return shift<<4 + int(v>>shift)
}

// value is the middle of a bucket, in microseconds.
func value(b int) float64 {
	if b < 32 {
		return float64(b) + 0.5
	}
	shift := b>>4 - 1
	low := uint64(b-shift<<4) << shift
	return float64(low) + float64(uint64(1)<<shift)/2
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
}

// Quantile returns the duration that a part q of all does not exceed; 0 if there
// are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := int64(q * float64(h.n))
	var seen int64
	for b, n := range h.counts {
		seen += int64(n)
		if n > 0 && seen > min(want, h.n-1) {
			return time.Duration(value(b) * 1000)
		}
	}
	return 0
}
