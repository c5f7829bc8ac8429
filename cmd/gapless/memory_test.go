package main

import (
	"runtime"
	"testing"
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
