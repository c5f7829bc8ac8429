package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/clientgo"
)

type calls = map[string][]string

// difference is something that we do otherwise on purpose.
type difference struct {
	// name is the row's first cell in MIGRATING-from-client-go.md.
	name string
	play func(t *testing.T) (theirs, ours any)
	// what is seen of client-go, and of us.
	theirs, ours any
	// before is what some versions of client-go before 0.36 do instead of theirs.
	before any
}

// relist makes the informers read the whole state again.
func relist(w *fakeServer, meanwhile func()) {
	w.leave()
	meanwhile()
	w.forget()
	w.comeBack()
	after(3 * time.Minute)
}

// calledDuring returns the calls of both handlers during f, which runs after the first sync.
func calledDuring(t *testing.T, f func(w *fakeServer), opts ...clientgo.Option) (theirs, ours any) {
	t.Helper()
	w := newFakeServer()
	w.put("a", "1")
	p := newPair(t, w, 0, opts...)
	run(t, func() {
		p.compare(t, "the beginning")
		f(w)
		after(settled)
		theirs, ours = p.theirLog.calls(), p.ourLog.calls()
	}, p.theirs, p.ours)
	return theirs, ours
}

func differences() []difference {
	return append(callDifferences(), otherDifferences()...)
}

func callDifferences() []difference {
	return []difference{
		{
			name: "Unchanged objects on a re-list",
			play: func(t *testing.T) (theirs, ours any) {
				return calledDuring(t, func(w *fakeServer) { relist(w, func() {}) })
			},
			theirs: calls{"ns/a": {"update u1@1001=1 u1@1001=1"}}, ours: calls{},
		},
		{
			name: "An event that is sent twice",
			play: func(t *testing.T) (theirs, ours any) {
				return calledDuring(t, func(w *fakeServer) {
					w.put("a", "2")
					w.repeat(0)
					after(time.Second)
					w.delete("a")
					w.repeat(0)
				})
			},
			theirs: calls{
				"ns/a": {"update u1@1001=1 u1@1002=2", "update u1@1002=2 u1@1002=2", "delete u1@1003=2", "delete u1@1003=2"},
			},
			ours: calls{"ns/a": {"update u1@1001=1 u1@1002=2", "delete u1@1003=2"}},
		},
		{
			name: "An event older than what is known",
			play: func(t *testing.T) (theirs, ours any) {
				return calledDuring(t, func(w *fakeServer) {
					w.put("a", "2")
					after(time.Second)
					w.put("a", "3")
					after(time.Second)
					w.repeat(1)
				})
			},
			theirs: calls{"ns/a": {"update u1@1001=1 u1@1002=2", "update u1@1002=2 u1@1003=3", "update u1@1003=3 u1@1002=2"}},
			ours:   calls{"ns/a": {"update u1@1001=1 u1@1002=2", "update u1@1002=2 u1@1003=3"}},
		},
		{
			name: "Deleted and created again, unseen",
			play: func(t *testing.T) (theirs, ours any) {
				return calledDuring(t, func(w *fakeServer) { relist(w, func() { w.delete("a"); w.put("a", "2") }) })
			},
			theirs: calls{"ns/a": {"update u1@1001=1 u2@1003=2"}},
			ours:   calls{"ns/a": {"lost ns/a u1@1001=1", "add u2@1003=2"}},
		},
		{
			name: "Changes while a handler is busy",
			play: func(t *testing.T) (theirs, ours any) {
				return busy(t)
			},
			theirs: []string{
				"initial u1@1001=1", "update u1@1001=1 u1@1002=2", "update u1@1002=2 u1@1003=3", "update u1@1003=3 u1@1004=4",
			},
			ours: []string{"initial u1@1001=1", "update u1@1001=1 u1@1004=4"},
		},
		{
			name: "A handler that panics",
			play: func(t *testing.T) (theirs, ours any) { return panics(t) },
			// Of client-go this is what is left with ReallyCrash=false; by default the process ends.
			theirs: "[initial u1@1001=1] synced=false", ours: "[initial u1@1001=1 initial u1@1001=1] synced=true",
		},
	}
}

// busy has handlers that need a minute for a call, while three changes come.
func busy(t *testing.T, opts ...clientgo.Option) (theirs, ours any) {
	t.Helper()
	w := newFakeServer()
	w.put("a", "1")
	p := newPair(t, w, 0, opts...)
	p.theirLog.slow, p.ourLog.slow = time.Minute, time.Minute
	run(t, func() {
		for n := range 3 {
			after(time.Second)
			w.put("a", fmt.Sprint(n+2))
		}
		after(10 * time.Minute)
		theirs, ours = p.theirLog.calls()["ns/a"], p.ourLog.calls()["ns/a"]
	}, p.theirs, p.ours)
	return theirs, ours
}

// panics has handlers that panic at the first call.
func panics(t *testing.T) (theirs, ours any) {
	t.Helper()
	utilruntime.ReallyCrash = false
	defer func() { utilruntime.ReallyCrash = true }()
	w := newFakeServer()
	w.put("a", "1")
	p := newPair(t, w, 0)
	for l, i := range map[*log]cache.SharedIndexInformer{newLog(): p.theirs, newLog(): p.ours} {
		done := false
		l.fail = func(string) {
			if !done {
				done = true
				panic("oh")
			}
		}
		r, err := i.AddEventHandler(l)
		if err != nil {
			t.Fatalf("add a handler: %v", err)
		}
		run(t, func() { after(time.Minute) }, i)
		said := fmt.Sprintf("%v synced=%t", l.calls()["ns/a"], r.HasSynced())
		if i == p.theirs {
			theirs = said
		} else {
			ours = said
		}
	}
	return theirs, ours
}

func otherDifferences() []difference {
	return []difference{
		{
			name: "An index function that fails",
			play: func(t *testing.T) (theirs, ours any) {
				w := newFakeServer()
				add := func(i cache.SharedIndexInformer) (said any) {
					defer func() {
						if v := recover(); v != nil {
							said = "panic"
						}
					}()
					if err := i.AddIndexers(cache.Indexers{
						"odd": func(any) ([]string, error) { return nil, errors.New("odd") },
					}); err != nil {
						t.Fatalf("add indexers: %v", err)
					}
					if err := i.GetIndexer().Add(&corev1.ConfigMap{}); err != nil {
						t.Fatalf("add an indexer: %v", err)
					}
					return fmt.Sprint(len(i.GetIndexer().List()), " in the store, ",
						len(i.GetIndexer().ListIndexFuncValues("odd")), " in the index")
				}
				p := newPair(t, w, 0)
				return add(p.theirs), add(p.ours)
			},
			theirs: "panic", ours: "1 in the store, 0 in the index",
		},
		{
			name: "The watch error handler and a 410",
			play: func(t *testing.T) (theirs, ours any) {
				return eachAlone(t, func(w *fakeServer, i cache.SharedIndexInformer) any {
					heard := 0
					if err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
						if strings.Contains(err.Error(), "too old") {
							heard++
						}
					}); err != nil {
						t.Fatalf("set the error handler: %v", err)
					}
					run(t, func() { after(time.Second); w.forget(); after(settled) }, i)
					return heard
				})
			},
			theirs: 0, ours: 1,
		},
		{
			name: "How often a transform sees an object",
			play: func(t *testing.T) (theirs, ours any) {
				return eachAlone(t, func(_ *fakeServer, i cache.SharedIndexInformer) any {
					seen := 0
					if err := i.SetTransform(func(o any) (any, error) { seen++; return o, nil }); err != nil {
						t.Fatalf("set the transform: %v", err)
					}
					run(t, func() { after(settled) }, i)
					return seen
				})
			},
			theirs: 2, ours: 1, before: 1,
		},
		{
			name: "A transform that fails on one object",
			play: func(t *testing.T) (theirs, ours any) {
				return eachAlone(t, func(w *fakeServer, i cache.SharedIndexInformer) any {
					w.put("b", "13")
					w.noStreams = true
					if err := i.SetTransform(func(o any) (any, error) {
						if o.(*corev1.ConfigMap).Data["value"] == "13" {
							return nil, errors.New("no")
						}
						return o, nil
					}); err != nil {
						t.Fatalf("set the transform: %v", err)
					}
					run(t, func() { after(10 * time.Minute) }, i)
					return fmt.Sprintf("synced=%t %v", i.HasSynced(), contents(i))
				})
			},
			theirs: "synced=false map[]", ours: "synced=true map[ns/a:u1@1001=1]", before: "synced=false map[ns/a:u1@1001=1]",
		},
		{
			name: "A resync",
			play: func(t *testing.T) (theirs, ours any) {
				w := newFakeServer()
				for n := range 10 {
					w.put(fmt.Sprint("o", n), "1")
				}
				p := newPair(t, w, 10*time.Minute)
				moments := func(l *log) string {
					l.mu.Lock()
					defer l.mu.Unlock()
					different := map[time.Time]bool{}
					for _, at := range l.times {
						different[at.Truncate(time.Second)] = true
					}
					return fmt.Sprintf("%d calls in %d seconds", len(l.times), len(different))
				}
				run(t, func() {
					after(time.Minute)
					p.theirLog.calls()
					p.ourLog.calls()
					after(10 * time.Minute)
					theirs, ours = moments(p.theirLog), moments(p.ourLog)
				}, p.theirs, p.ours)
				return theirs, ours
			},
			theirs: "10 calls in 1 seconds", ours: "10 calls in 10 seconds",
		},
		{
			name: "A resync period that is asked for late",
			play: func(t *testing.T) (theirs, ours any) {
				return eachAlone(t, func(_ *fakeServer, i cache.SharedIndexInformer) any {
					l := newLog()
					run(t, func() {
						after(settled)
						if _, err := i.AddEventHandlerWithResyncPeriod(l, time.Minute); err != nil {
							t.Errorf("add a handler: %v", err)
						}
						after(5*time.Minute + time.Second)
					}, i)
					return len(l.calls()["ns/a"])
				})
			},
			theirs: 1, ours: 6,
		},
		{
			name: "Stopping while the server is away",
			play: func(t *testing.T) (theirs, ours any) {
				return eachConstructor(func(w *fakeServer, construct clientgo.Constructor) any {
					w.leave()
					var all []cache.SharedIndexInformer
					for range 3 { // one of client-go's can be about to wake
						all = append(all, construct(w.listWatch(t), &corev1.ConfigMap{}, 0, nil))
					}
					var stopped time.Time
					run(t, func() { after(10 * time.Minute); stopped = time.Now() }, all...)
					return time.Since(stopped) < 100*time.Millisecond
				})
			},
			theirs: false, ours: true,
		},
	}
}

// eachConstructor does f with client-go's constructor and with ours, each in a fakeServer
// of its own with one object.
func eachConstructor(f func(w *fakeServer, construct clientgo.Constructor) any) (theirs, ours any) {
	var results []any
	for _, construct := range []clientgo.Constructor{cache.NewSharedIndexInformer, clientgo.New} {
		w := newFakeServer()
		w.put("a", "1")
		results = append(results, f(w, construct))
	}
	return results[0], results[1]
}

// eachAlone is eachConstructor with the informer made.
func eachAlone(t *testing.T, f func(w *fakeServer, i cache.SharedIndexInformer) any) (theirs, ours any) {
	t.Helper()
	return eachConstructor(func(w *fakeServer, construct clientgo.Constructor) any {
		return f(w, construct(w.listWatch(t), &corev1.ConfigMap{}, 0, byNamespace()))
	})
}

// TestDifferences shows each difference on purpose, and that it is written down.
func TestDifferences(t *testing.T) {
	guide, err := os.ReadFile("../../MIGRATING-from-client-go.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	for _, d := range differences() {
		t.Run(d.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs, ours := d.play(t)
				isBefore := d.before != nil && checkerOf(cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, nil)) == nil &&
					cmp.Equal(d.before, theirs)
				if diff := cmp.Diff(d.theirs, theirs); diff != "" && !isBefore {
					t.Errorf("client-go (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(d.ours, ours); diff != "" {
					t.Errorf("ours (-want +got):\n%s", diff)
				}
			})
			if !strings.Contains(string(guide), "| "+d.name+" |") {
				t.Errorf("MIGRATING-from-client-go.md does not say it")
			}
		})
	}
	rows := 0
	_, table, _ := strings.Cut(string(guide), "## What differs on purpose")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") {
			rows++
		}
	}
	if want := len(differences()) + 1; rows != want { // and the head
		t.Errorf("MIGRATING-from-client-go.md has %d rows, %d differences are shown", rows-1, want-1)
	}
}

// TestOptionsUndoDifferences: with the options, the calls are client-go's.
func TestOptionsUndoDifferences(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(t *testing.T) (theirs, ours any)
	}{
		{"RelistUpdates", func(t *testing.T) (theirs, ours any) {
			return calledDuring(t, func(w *fakeServer) { relist(w, func() { w.put("b", "1") }) }, clientgo.RelistUpdates())
		}},
		{"Every", func(t *testing.T) (theirs, ours any) {
			return busy(t, clientgo.Handlers(informer.Every(100, informer.Block)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs, ours := c.play(t)
				if diff := cmp.Diff(theirs, ours); diff != "" || theirs == nil {
					t.Errorf("-client-go +ours:\n%s", diff)
				}
			})
		})
	}
}
