package informer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// TestResyncReDeliversEachObjectOncePerPeriod from the first sync on, for few and for many
// objects.
func TestResyncReDeliversEachObjectOncePerPeriod(t *testing.T) {
	for _, objects := range []int{1, 2, 10, 1000} {
		t.Run(fmt.Sprint(objects), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				for n := range objects {
					w.Put(fmt.Sprint("o", n), n)
				}
				w.Fail(listwatchtest.Faults(fault{Delay: 25 * time.Second})) // so that it begins unsynced
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
							t.Errorf("o%d was delivered %d times in five periods", n, got)
						}
					}
				})
			})
		})
	}
}
