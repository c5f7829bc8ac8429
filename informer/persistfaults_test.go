package informer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

// TestWarmStartsUnderFaults lets programs come and go while the server fails in many ways:
// each ends with the server's state, and its handler has heard of nothing wrong.
func TestWarmStartsUnderFaults(t *testing.T) {
	ends := []string{"eof", "cut", "half", "410", "500", "silent"}
	for n := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(n, 6))      //nolint:gosec // the same each time
			faults := rand.New(rand.NewPCG(n, 7)) //nolint:gosec // the same each time; the server's own
			w, dir := worldOf(20), informer.Persist(t.TempDir(), informer.PersistEvery(time.Duration(1+r.IntN(20))*time.Second))
			for range 6 {
				w.fail(func(request) fault {
					switch faults.IntN(4) {
					case 0:
						return fault{end: ends[faults.IntN(len(ends))], after: faults.IntN(30)}
					case 1:
						return fault{refuse: true}
					}
					return fault{}
				})
				l := born(w.informer, dir)
				run(t, l.Informer, func() {
					for range r.IntN(60) {
						name := fmt.Sprint("o", r.IntN(30))
						if r.IntN(4) == 0 {
							w.delete(name)
						} else {
							w.put(name, r.IntN(1000))
						}
						after(time.Duration(r.IntN(3000)) * time.Millisecond)
					}
					if r.IntN(2) == 0 {
						w.fail(nil)
						after(15 * time.Minute) // a silent watch is given up after at most 10 min 30 s
						if diff := cmp.Diff(w.state(t), cached(l.Informer)); diff != "" {
							t.Errorf("run %d: %s", n, diff)
						}
						if diff := cmp.Diff(w.state(t), l.told.state()); diff != "" {
							t.Errorf("run %d: the handler's state: %s", n, diff)
						}
					}
				})
				l.told.check(t)
				if f := l.failed(); f != "" {
					t.Error(f)
				}
				if r.IntN(3) == 0 {
					w.compact()
				}
				for range r.IntN(20) {
					w.put(fmt.Sprint("o", r.IntN(30)), r.IntN(1000))
				}
			}
		})
	}
}
