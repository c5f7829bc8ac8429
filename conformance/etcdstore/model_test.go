package etcdstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/compat/harness"
	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the random test, 0 for a new one")
	roundsFlag = flag.Int("rounds", 12, "rounds of the random test")
)

// world is an etcd with a replica, beside a record of every change that etcd made.
type world struct {
	*testing.T

	random *rand.Rand
	member *oracle.Member
	client *clientv3.Client // not through the proxy
	proxy  *harness.Proxy
	prefix string
	seen   *recorder

	fs        *disk.Memory
	store     *running
	follower  *follower
	compacted int64

	mu    sync.Mutex
	acked []store.Change // what the store acknowledged
}

// recorder has every change of a prefix, from a watch of its own.
type recorder struct {
	mu      sync.Mutex
	changes []*clientv3.Event
	err     error
	moved   chan struct{}
}

func (w *world) record() {
	w.Helper()
	w.seen = &recorder{moved: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	watch := w.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the test
		for r := range watch {
			w.seen.mu.Lock()
			w.seen.changes = append(w.seen.changes, r.Events...)
			w.seen.err = errors.Join(w.seen.err, r.Err())
			close(w.seen.moved)
			w.seen.moved = make(chan struct{})
			w.seen.mu.Unlock()
		}
	})
	w.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// fence writes one more key and waits until the record and the store have that. It returns the revision.
func (w *world) fence() int64 {
	w.Helper()
	done, err := w.client.Put(within(w.T), w.prefix+"fences/one", string(mark)+"x")
	if err != nil {
		w.Fatalf("write the last key of a round: %v", err)
	}
	w.seen.wait(w.T, done.Header.Revision)
	return done.Header.Revision
}

func (r *recorder) wait(t *testing.T, rev int64) {
	t.Helper()
	ctx := within(t)
	for {
		r.mu.Lock()
		n, err, moved := len(r.changes), r.err, r.moved
		reached := n > 0 && r.changes[n-1].Kv.ModRevision >= rev
		r.mu.Unlock()
		if err != nil {
			t.Fatalf("record what etcd does: %v", err)
		}
		if reached {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatalf("the record has not reached revision %d", rev)
		}
	}
}

// oracleOf computes what the store must answer at a revision.
func (w *world) oracleOf(upTo int64) *storetest.Oracle {
	w.seen.mu.Lock()
	changes := slices.Clone(w.seen.changes)
	w.seen.mu.Unlock()
	o := &storetest.Oracle{}
	holes := w.store.Stats().Holes
	for len(changes) > 0 && changes[0].Kv.ModRevision <= upTo {
		rev := changes[0].Kv.ModRevision
		for len(holes) > 0 && holes[0].To < rev {
			if holes[0].From > 0 {
				o.Miss(holes[0])
			}
			holes = holes[1:]
		}
		var txns []store.Txn
		for ; len(changes) > 0 && changes[0].Kv.ModRevision == rev; changes = changes[1:] {
			kv := changes[0].Kv
			value := strings.TrimPrefix(string(kv.Value), string(mark))
			if _, known := plain(w.prefix).StoreKey(string(kv.Key)); !known {
				continue
			}
			txns = append(txns, store.Txn{
				Key: strings.TrimPrefix(string(kv.Key), w.prefix), Value: []byte(value),
				Delete: changes[0].Type == clientv3.EventTypeDelete,
			})
		}
		o.AddTogether(rev, txns...)
	}
	for _, h := range holes {
		if h.From > 0 {
			o.Miss(h)
		}
	}
	o.Compact(w.compacted)
	return o
}

// start opens the store over the files, and a feed that lasts as long.
func (w *world) start() {
	w.Helper()
	w.store = run(w.T, etcd.Options{
		Cluster: etcd.Cluster{Servers: []string{plainURL(w.T, w.proxy)}}, Prefix: w.prefix, Layout: plain(w.prefix),
		FS: w.fs, SegmentBytes: 16 << 10, GroupWrites: 8,
	})
	after := w.store.Stats().Reached
	if after == 0 {
		page, err := w.store.Read(within(w.T), store.Query{Start: "none/a"})
		if err != nil {
			w.Fatalf("wait for the first state: %v", err)
		}
		after = page.Revision
	}
	w.follow(after)
}

// follower reads a feed.
type follower struct {
	after   int64
	changes []store.Change
	ended   chan struct{}
	through chan int64 // holds the last
}

func (w *world) follow(after int64) {
	w.Helper()
	feed, err := w.store.Changes(w.Context(), store.From{After: after, Hold: true})
	if err != nil {
		w.Fatalf("follow the store from %d: %v", after, err)
	}
	f := &follower{after: after, ended: make(chan struct{}), through: make(chan int64, 1)}
	f.through <- after
	w.follower = f
	go func() { // ends with the store
		defer close(f.ended)
		for {
			batch, err := feed.Next(context.WithoutCancel(w.Context()))
			if err != nil {
				if !errors.Is(err, store.ErrClosed) {
					w.Errorf("follow the store: %v", err)
				}
				_ = feed.Close()
				return
			}
			through := <-f.through
			f.changes = append(f.changes, batch.Changes...)
			if batch.Through < through {
				w.Errorf("a batch through %d follows one through %d", batch.Through, through)
			}
			f.through <- batch.Through
		}
	}()
}

// restart ends the store, or leaves it as a crash would, and opens it again.
func (w *world) restart(crash bool) {
	w.Helper()
	files := w.fs
	if crash {
		files = w.fs.Copy()
	}
	w.store.stop(w.T)
	<-w.follower.ended
	w.fs = files
	w.start()
}

var keys = []string{
	"pods/a", "pods/b", "pods/c", "pods/d", "nodes/1", "nodes/2", "events/1", "events/2", "events/3", "quiet/q",
}

// write does one random thing to etcd.
func (w *world) write(ctx context.Context, random *rand.Rand, name string) error {
	key := keys[random.IntN(len(keys)-1)]
	switch random.IntN(8) {
	case 0:
		_, err := w.client.Delete(ctx, w.prefix+key)
		return err
	case 1: // several keys at one revision, also one that the store does not serve
		var ops []clientv3.Op
		for _, i := range random.Perm(len(keys) - 1)[:1+random.IntN(4)] {
			if k := w.prefix + keys[i]; random.IntN(3) == 0 {
				ops = append(ops, clientv3.OpDelete(k))
			} else {
				ops = append(ops, clientv3.OpPut(k, string(mark)+name))
			}
		}
		ops = append(ops, clientv3.OpPut(w.prefix+"ranges/x", name))
		_, err := w.client.Txn(ctx).Then(ops...).Commit()
		return err
	case 2: // what expires together
		lease, err := w.client.Grant(ctx, 1)
		if err != nil {
			return err
		}
		for _, i := range random.Perm(3)[:2] {
			key := fmt.Sprint(w.prefix, "events/", i+1)
			if _, err := w.client.Put(ctx, key, string(mark)+name, clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
		}
		if random.IntN(2) == 0 {
			_, err = w.client.Revoke(ctx, lease.ID)
		}
		return err
	case 3:
		_, err := w.client.Put(ctx, w.prefix+key, string(mark)+name)
		return err
	}
	return w.commit(ctx, random, store.Txn{Key: key, Value: []byte(name), Delete: random.IntN(5) == 0})
}

// commit writes through the store.
func (w *world) commit(ctx context.Context, random *rand.Rand, t store.Txn) error {
	s := w.store
	page, err := s.Read(ctx, store.Query{Start: t.Key})
	if err != nil {
		return nil //nolint:nilerr // it restarts
	}
	if len(page.Records) > 0 {
		t.ExpectedModRevision = page.Records[0].ModRevision
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(100+random.IntN(900))*time.Millisecond)
	defer cancel()
	done, err := s.Commit(ctx, t)
	if err != nil {
		return nil //nolint:nilerr // a conflict, or its outcome is unknown: the record says what happened
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, store.Change{Revision: done.Revision, Key: t.Key, Value: t.Value, Deleted: t.Delete})
	return nil
}

// round writes while something happens to the store.
func (w *world) round(n int) {
	w.Helper()
	var wg sync.WaitGroup
	for i := range 3 {
		random := rand.New(rand.NewPCG(w.random.Uint64(), 1))
		wg.Go(func() {
			for j := range 12 {
				if err := w.write(w.Context(), random, fmt.Sprintf("%d-%d-%d", n, i, j)); err != nil {
					w.Errorf("write to etcd: %v", err)
				}
			}
		})
	}
	switch w.random.IntN(3) {
	case 0:
		w.proxy.Cut()
	case 1:
		wg.Wait()
	}
	wg.Wait()
	switch w.random.IntN(5) {
	case 0:
		w.restart(false)
	case 1:
		w.restart(true)
	case 2:
		w.away(n)
	case 3:
		w.proxy.Cut()
	}
}

// away has etcd written and compacted while the store does not see it.
func (w *world) away(n int) {
	w.Helper()
	w.proxy.Refuse()
	w.proxy.Cut()
	random := rand.New(rand.NewPCG(w.random.Uint64(), 1))
	for j := range 15 {
		value := fmt.Sprintf("%s%d-away-%d", mark, n, j)
		if _, err := w.client.Put(w.Context(), w.prefix+keys[random.IntN(9)], value); err != nil {
			w.Fatalf("write to etcd: %v", err)
		}
		if _, err := w.client.Delete(w.Context(), w.prefix+keys[random.IntN(9)]); err != nil {
			w.Fatalf("write to etcd: %v", err)
		}
	}
	crash := random.IntN(3) == 0
	if crash {
		w.restartAway()
	}
	if rev := w.fence(); random.IntN(4) > 0 {
		if err := w.member.Compact(within(w.T), rev); err != nil {
			w.Fatalf("compact etcd: %v", err)
		}
	}
	w.proxy.Accept(w.T)
}

// restartAway restarts the store while it cannot reach etcd: it shows what it has.
func (w *world) restartAway() {
	w.Helper()
	reached := w.store.Stats().Reached
	w.restart(true)
	page, err := w.store.Read(within(w.T), store.Query{Start: "pods/", End: "pods0"})
	if err != nil || page.Revision > reached {
		w.Fatalf("a store that cannot reach etcd reads at %d, %v, and had %d", page.Revision, err, reached)
	}
}

// check compares the store with the record.
func (w *world) check() {
	w.Helper()
	rev := w.fence()
	ctx := within(w.T)
	reaches(ctx, w.T, w.store, rev)
	rev = w.settle()
	o := w.oracleOf(rev)
	revisions := o.Revisions()
	w.random.Shuffle(len(revisions), func(i, j int) { revisions[i], revisions[j] = revisions[j], revisions[i] })
	if err := o.CompareAt(ctx, w.store, revisions[:min(len(revisions), 60)]); err != nil {
		w.Fatalf("compare with what etcd did: %v", err)
	}
	w.checkFollower(rev, o)
	w.checkAcked()
}

// settle waits until no lease is about to expire, so that etcd stands still, and returns the revision.
func (w *world) settle() int64 {
	w.Helper()
	ctx := within(w.T)
	for {
		leases, err := w.client.Leases(ctx)
		if err != nil {
			w.Fatalf("list the leases: %v", err)
		}
		if len(leases.Leases) == 0 {
			break
		}
		pause(ctx)
	}
	return reaches(ctx, w.T, w.store, w.fence())
}

func (w *world) checkFollower(rev int64, o *storetest.Oracle) {
	w.Helper()
	ctx := within(w.T)
	f := w.follower
	for {
		through := <-f.through
		if through >= rev {
			got := slices.Clone(f.changes)
			f.through <- through
			want, err := storetest.Collect(ctx, w.store, store.From{After: f.after, UpTo: rev})
			if _, is := errors.AsType[*store.CompactedError](err); is {
				return // the feed began before what is kept
			}
			if err != nil {
				w.Fatalf("read again what a feed delivered: %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				w.Fatalf("a feed from %d, compared with one afterwards (-want +got):\n%s", f.after, diff)
			}
			return
		}
		f.through <- through
		select {
		case <-f.ended:
			w.Fatalf("the feed ended at %d", through)
		case <-ctx.Done():
			w.Fatalf("the feed is at %d, and the store at %d", through, rev)
		case <-time.After(pauseFor):
		}
	}
}

// checkAcked finds everything that the store acknowledged in the record.
func (w *world) checkAcked() {
	w.Helper()
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]string{}
	for _, e := range w.seen.changes {
		found[fmt.Sprint(e.Kv.ModRevision, " ", string(e.Kv.Key))] = fmt.Sprint(e.Type, " ", string(e.Kv.Value))
	}
	for _, c := range w.acked {
		want := "PUT " + string(mark) + string(c.Value)
		if c.Deleted {
			want = "DELETE "
		}
		if got := found[fmt.Sprint(c.Revision, " ", w.prefix+c.Key)]; got != want {
			w.Errorf("the store acknowledged %q of %s at %d, and etcd has %q", want, c.Key, c.Revision, got)
		}
	}
	if len(w.acked) == 0 {
		w.Error("the store acknowledged no write")
	}
}

// TestStoreShowsWhatEtcdDid: writers of the store and of etcd itself, leases that end, connections that are
// cut, restarts and crashes of the store, and compactions of etcd and of the store.
func TestStoreShowsWhatEtcdDid(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", seed)
	member := startEtcd(t)
	w := &world{
		T: t, random: rand.New(rand.NewPCG(seed, 0)), member: member, client: connect(t, member.URL()), prefix: "/registry/",
		proxy: behind(t, member.URL()), fs: disk.NewMemory(),
	}
	w.record()
	w.start()
	for n := range *roundsFlag {
		w.round(n)
		w.check()
		if rev := w.store.Stats().Reached; w.random.IntN(3) == 0 {
			upTo := rev - w.random.Int64N(60)
			if slices.ContainsFunc(w.store.Stats().Holes, func(h store.Hole) bool { return h.Has(upTo) }) || upTo < 1 {
				continue
			}
			done, err := w.store.Compact(within(t), store.Compaction{UpTo: upTo})
			if err != nil {
				t.Fatalf("compact the store up to %d: %v", upTo, err)
			}
			w.compacted = max(w.compacted, min(done, upTo))
			w.check()
		}
	}
	stats := w.store.Stats()
	t.Logf("%d changes, %d acknowledged; holes %v, compacted up to %d, %d runs", len(w.seen.changes), len(w.acked), stats.Holes,
		stats.Compacted, stats.Runs)
}
