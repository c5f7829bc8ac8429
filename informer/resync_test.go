package informer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/informer"
)

// TestResyncHandsEachObjectOverOncePerPeriod from the first sync on, however few
// objects there are.
func TestResyncHandsEachObjectOverOncePerPeriod(t *testing.T) {
	for _, objects := range []int{1, 2, 10, 1000} {
		t.Run(fmt.Sprint(objects), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for n := range objects {
					w.put(fmt.Sprint("o", n), n)
				}
				w.fail(faults(fault{delay: 25 * time.Second})) // so that it begins unsynced
				i := w.informer()
				calls := map[string]int{}
				i.Handle(func(_ context.Context, e informer.Event[*thing]) error {
					if e.Type == informer.Resync {
						calls[e.Key.Name]++
					}
					return nil
				}, informer.EveryResync(10*time.Second))
				run(t, i, func() {
					after(25 * time.Second)
					after(50*time.Second + 50*time.Millisecond)
					for n := range objects {
						// At an edge of the 50 ms by which pauses are rounded, it can be one more.
						if got := calls[fmt.Sprint("o", n)]; got != 5 && (objects < 1000 || got != 6) {
							t.Errorf("o%d was handed over %d times in five periods", n, got)
						}
					}
				})
			})
		})
	}
}
