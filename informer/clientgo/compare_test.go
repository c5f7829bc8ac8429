package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer/clientgo"
)

// settled is longer than client-go's first pause after an error, 1.6 s.
const settled = 10 * time.Second

func byNamespace() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// pair is client-go's informer and ours on one fakeServer.
type pair struct {
	theirs, ours     cache.SharedIndexInformer
	theirLog, ourLog *log
}

func newPair(t *testing.T, w *fakeServer, resync time.Duration, opts ...clientgo.Option) *pair {
	t.Helper()
	p := &pair{theirLog: newLog(), ourLog: newLog()}
	p.theirs = cache.NewSharedIndexInformer(w.listWatch(t), &corev1.ConfigMap{}, resync, byNamespace())
	p.ours = clientgo.With(opts...)(w.listWatch(t), &corev1.ConfigMap{}, resync, byNamespace())
	p.handle(t, p.theirLog, p.ourLog)
	return p
}

func (p *pair) handle(t *testing.T, theirs, ours cache.ResourceEventHandler) {
	t.Helper()
	if _, err := p.theirs.AddEventHandler(theirs); err != nil {
		t.Fatalf("add a handler: %v", err)
	}
	if _, err := p.ours.AddEventHandler(ours); err != nil {
		t.Fatalf("add a handler: %v", err)
	}
}

func contents(i cache.SharedIndexInformer) map[string]string {
	all := map[string]string{}
	for _, key := range i.GetIndexer().ListKeys() {
		o, _, _ := i.GetIndexer().GetByKey(key)
		all[key] = short(o)
	}
	return all
}

// compare waits until both informers are idle and compares the calls of their handlers and
// the contents of their stores.
func (p *pair) compare(t *testing.T, what string) {
	t.Helper()
	p.compareObjects(t, what)
	if a, b := storeVersion(p.theirs.GetIndexer()), storeVersion(p.ours.GetIndexer()); a != b {
		t.Errorf("%s: client-go's store is at %s, ours at %s", what, a, b)
	}
}

// compareObjects is compare without the version of the store, which client-go takes from
// the objects.
func (p *pair) compareObjects(t *testing.T, what string) {
	t.Helper()
	after(settled)
	if diff := cmp.Diff(p.theirLog.calls(), p.ourLog.calls()); diff != "" {
		t.Errorf("%s: the calls (-client-go +ours):\n%s", what, diff)
	}
	if diff := cmp.Diff(contents(p.theirs), contents(p.ours)); diff != "" {
		t.Errorf("%s: the stores (-client-go +ours):\n%s", what, diff)
	}
	for _, index := range []string{cache.NamespaceIndex} {
		theirs, err := p.theirs.GetIndexer().IndexKeys(index, "ns")
		if err != nil {
			t.Fatalf("list the keys of the index: %v", err)
		}
		ours, err := p.ours.GetIndexer().IndexKeys(index, "ns")
		if diff := cmp.Diff(theirs, ours); diff != "" || err != nil {
			t.Errorf("%s: the index %s, %v (-client-go +ours):\n%s", what, index, err, diff)
		}
	}
	if a, b := p.theirs.HasSynced(), p.ours.HasSynced(); a != b {
		t.Errorf("%s: client-go is synced: %t, we: %t", what, a, b)
	}
	if a, b := p.theirs.LastSyncResourceVersion(), p.ours.LastSyncResourceVersion(); a != b {
		t.Errorf("%s: client-go is at %s, we at %s", what, a, b)
	}
}

type step struct {
	what string
	do   func(w *fakeServer)
}

func scripts() map[string][]step {
	start := step{"two objects", func(w *fakeServer) { w.put("a", "1"); w.put("b", "1") }}
	return map[string][]step{
		"nothing at all": {{"nothing", func(*fakeServer) {}}, {"one comes", func(w *fakeServer) { w.put("a", "1") }}},
		"events": {
			start,
			{"changes", func(w *fakeServer) { w.put("a", "2"); w.put("c", "1") }},
			{"a deletion", func(w *fakeServer) { w.delete("b") }},
			{"deleted and created", func(w *fakeServer) { w.delete("a"); after(time.Second); w.put("a", "3") }},
		},
		"cut connections": {
			start,
			{"cut", func(w *fakeServer) { w.put("a", "2"); after(2 * time.Second); w.cut() }},
			{"away", func(w *fakeServer) {
				w.leave()
				w.put("b", "2")
				w.put("c", "1")
				w.delete("a")
				after(time.Minute)
				w.comeBack()
				after(3 * time.Minute)
			}},
			{"ended", func(w *fakeServer) { w.put("b", "3"); after(2 * time.Second); w.end(); w.put("b", "4") }},
		},
		"bookmarks save a re-list": {
			start,
			{"a bookmark", func(w *fakeServer) { w.bookmark() }},
			{
				"older history is compacted",
				func(w *fakeServer) { w.do(func() { w.floor = w.rv }); after(2 * time.Second); w.cut() },
			},
			{"and it goes on", func(w *fakeServer) { w.put("a", "2") }},
		},
		"a re-list where everything changed": {
			start,
			{"410", func(w *fakeServer) {
				w.leave()
				w.put("a", "2")
				w.delete("b")
				w.put("c", "1")
				w.forget()
				after(time.Minute)
				w.comeBack()
				after(3 * time.Minute)
			}},
			{"and it goes on", func(w *fakeServer) { w.put("a", "3"); w.delete("c") }},
		},
	}
}

// TestTheSameCallsAsClientGo runs scripts against client-go's informer and ours, with and
// without streaming lists.
func TestTheSameCallsAsClientGo(t *testing.T) {
	for name, script := range scripts() {
		for _, noStreams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streaming=%t", name, !noStreams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFakeServer()
					w.noStreams = noStreams
					script[0].do(w)
					p := newPair(t, w, 0)
					run(t, func() {
						p.compare(t, script[0].what)
						for _, s := range script[1:] {
							s.do(w)
							p.compare(t, s.what)
						}
						theirs, ours := newLog(), newLog()
						p.handle(t, theirs, ours)
						p.theirLog, p.ourLog = theirs, ours
						p.compare(t, "a handler that comes late")
					}, p.theirs, p.ours)
				})
			})
		}
	}
}
