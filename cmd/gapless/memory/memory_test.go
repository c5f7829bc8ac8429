package memory

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestALargeHeapGrowsLess(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 4 << 20: 200, 64 << 20: 200, 96 << 20: 133, 128 << 20: 100, 4 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("GOGC %d with %d bytes in use, want %d", got, live, want)
		}
	}
}

func TestACollectionIsReported(t *testing.T) {
	ended := make(chan struct{}, 1)
	for range 3 {
		afterCollection(ended)
		runtime.GC()
		<-ended
	}
}

func TestMemoryIsGivenBackAfterWorkAndWhenCachesAreDropped(t *testing.T) {
	var quiet quietness
	allocated, second := uint64(0), 0
	var given []int
	pass := func(seconds int, each uint64) {
		for range seconds {
			second++
			allocated += each
			if quiet.worth(allocated, time.Unix(int64(second), 0)) {
				given = append(given, second)
			}
		}
	}
	pass(5, 32<<20) // a start
	pass(3, 1000)   // 6: what it left behind
	pass(5, 20<<20) // work
	pass(60, 1000)  // 14, and 44 when caches are empty
	pass(5, 1<<20)
	pass(60, 10) // 79: no cache has much of that
	pass(3, 300<<10)
	pass(60, 10) // too little was allocated for a collection
	if want := []int{6, 14, 44, 79}; !slices.Equal(given, want) {
		t.Errorf("memory is given back in the seconds %d, want %d", given, want)
	}
}
