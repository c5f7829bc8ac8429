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

// TestRestartsFromTheSnapshotFileUnderFailures starts and stops programs while the server
// fails in many ways. Each gets the server's state and correct events.
func TestRestartsFromTheSnapshotFileUnderFailures(t *testing.T) {
	ends := []string{"eof", "cut", "half", "410", "500", "silent"}
	for n := range seeds(40 / 2) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(n, 6))      //nolint:gosec // the same each time
			faults := rand.New(rand.NewPCG(n, 7)) //nolint:gosec // the same each time; the server's own
			w, dir := serverWith(20), informer.Persist(t.TempDir(),
				informer.PersistEvery(time.Duration(1+r.IntN(20))*time.Second))
			for range 6 {
				w.Fail(func(request) fault {
					switch faults.IntN(4) {
					case 0:
						return fault{End: ends[faults.IntN(len(ends))], After: faults.IntN(30)}
					case 1:
						return fault{Refuse: true}
					}
					return fault{}
				})
				l := newProgram(w.informer, dir)
				run(t, l.Informer, func() {
					for range r.IntN(60) {
						name := fmt.Sprint("o", r.IntN(30))
						if r.IntN(4) == 0 {
							w.Delete(name)
						} else {
							w.Put(name, r.IntN(1000))
						}
						after(time.Duration(r.IntN(3000)) * time.Millisecond)
					}
					if r.IntN(2) == 0 {
						w.Fail(nil)
						after(15 * time.Minute) // a silent watch is given up after at most 10 min 30 s
						if diff := cmp.Diff(w.state(t), cached(l.Informer)); diff != "" {
							t.Errorf("run %d: %s", n, diff)
						}
						if diff := cmp.Diff(w.state(t), l.recorder.state()); diff != "" {
							t.Errorf("run %d: the handler's state: %s", n, diff)
						}
					}
				})
				l.recorder.check(t)
				if f := l.failed(); f != "" {
					t.Error(f)
				}
				if r.IntN(3) == 0 {
					w.Compact(0)
				}
				for range r.IntN(20) {
					w.Put(fmt.Sprint("o", r.IntN(30)), r.IntN(1000))
				}
			}
		})
	}
}
