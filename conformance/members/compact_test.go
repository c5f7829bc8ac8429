package members_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// interval is how often is compacted here.
const interval = 300 * time.Millisecond

// upToDate is a revision that etcd does not reach here: a replica that is there never lags.
const upToDate = 1 << 40

// compactKey is the key that all compactors have in common.
const compactKey = "compact_rev_key"

// compactor starts a compactor of a replica, which ends with the replica.
func (r *replica) compactor(o members.CompactorOptions) *members.Compactor {
	c := members.NewCompactor(r.Members, o)
	r.running.Go(func() {
		if err := c.Run(r.ctx); err != nil {
			r.t.Errorf("compact as %s: %v", r.id, err)
		}
	})
	return c
}

// writer writes to etcd until the test ends, and remembers when.
type writer struct {
	mu   sync.Mutex
	done []write
}

// write is one write of a writer. The revision was reached between before and after.
type write struct {
	revision      int64
	before, after time.Time
}

func startWriter(t *testing.T, c *cluster) *writer {
	t.Helper()
	w := &writer{}
	client := c.client()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			before := time.Now()
			put, err := client.Put(ctx, "/registry/configmaps/default/a", before.String())
			if err != nil {
				continue // ctx has ended
			}
			w.mu.Lock()
			w.done = append(w.done, write{put.Header.Revision, before, time.Now()})
			w.mu.Unlock()
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// reached returns the times between which etcd has reached a revision: its first write at or above it
// was after the last write below.
func (w *writer) reached(revision int64) (earliest, latest time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrote := range w.done {
		if wrote.revision >= revision {
			return earliest, wrote.after
		}
		earliest = wrote.before
	}
	return earliest, time.Now()
}

// now is the revision of etcd.
func (c *cluster) now(client *clientv3.Client) int64 {
	c.t.Helper()
	resp, err := client.Get(limited(c.t), compactKey)
	if err != nil {
		c.t.Fatalf("read etcd's revision: %v", err)
	}
	return resp.Header.Revision
}

// tries returns how often a compactor has set the key.
func (c *cluster) tries(client *clientv3.Client) int64 {
	c.t.Helper()
	resp, err := client.Get(limited(c.t), compactKey)
	if err != nil {
		c.t.Fatalf("read %s: %v", compactKey, err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].Version
}

// compactedAt reports whether etcd has compacted a revision, so that it cannot be read any more.
func (c *cluster) compactedAt(client *clientv3.Client, revision int64) bool {
	c.t.Helper()
	_, err := client.Get(limited(c.t), compactKey, clientv3.WithRev(revision))
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) && !errors.Is(err, rpctypes.ErrFutureRev) {
		c.t.Fatalf("read at revision %d: %v", revision, err)
	}
	return errors.Is(err, rpctypes.ErrCompacted)
}

// awaitTries waits until compactors have set the key n times more.
func (c *cluster) awaitTries(client *clientv3.Client, n int64) {
	c.t.Helper()
	until := c.tries(client) + n
	harness.Eventually(c.t, "compactors go on", func() bool { return c.tries(client) >= until })
}

func TestCompactionStopsAtTheSlowestReplica(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	startWriter(t, c)
	client := c.client()
	a := c.replicaWith(members.Options{Replica: members.Replica{ID: "a", Revision: upToDate}})
	b := c.replicaWith(members.Options{Replica: members.Replica{ID: "b", Revision: 10}, ReportEvery: 20 * time.Millisecond})
	harness.Eventually(t, "there is something to compact", func() bool { return c.now(client) > 20 })
	awaitListed(t, a, "a", "b")
	compactors := []*members.Compactor{
		a.compactor(members.CompactorOptions{Interval: interval}), b.compactor(members.CompactorOptions{Interval: interval}),
	}
	harness.Eventually(t, "etcd is compacted to where b is", func() bool { return c.compactedAt(client, 9) })
	c.awaitTries(client, 2)
	if c.compactedAt(client, 10) {
		t.Fatal("etcd is compacted further than b is")
	}
	for _, k := range compactors {
		if rev := k.Revision(); rev != 10 {
			t.Errorf("a compactor says that etcd is compacted to %d, want 10", rev)
		}
	}
	b.reached.Store(c.now(client))
	harness.Eventually(t, "compaction goes on after b", func() bool { return c.compactedAt(client, b.reached.Load()-1) })
	c.awaitTries(client, 2)
	if c.compactedAt(client, b.reached.Load()) {
		t.Error("etcd is compacted further than b is")
	}
	b.stop()
	harness.Eventually(t, "compaction goes on without b", func() bool { return c.compactedAt(client, b.reached.Load()+100) })
}

func TestCompactorsAskReplicasThatSeemToLag(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	startWriter(t, c)
	client := c.client()
	a := c.replicaWith(members.Options{
		Replica: members.Replica{ID: "a", Revision: 10}, ReportEvery: time.Hour,
		CatchUp: func(ctx context.Context) (int64, error) {
			resp, err := client.Get(ctx, compactKey)
			if err != nil {
				return 0, err
			}
			return resp.Header.Revision, nil
		},
	})
	harness.Eventually(t, "there is something to compact", func() bool { return c.now(client) > 20 })
	awaitListed(t, a, "a")
	a.compactor(members.CompactorOptions{Interval: interval})
	harness.Eventually(t, "etcd is compacted further than was reported", func() bool { return c.compactedAt(client, 200) })
}

func TestAReplicaThatLagsForTooLongHoldsCompactionNoLonger(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	w := startWriter(t, c)
	client := c.client()
	a := c.replicaWith(members.Options{Replica: members.Replica{ID: "a", Revision: 10}})
	awaitListed(t, a, "a")
	const hold = 3 * time.Second
	began := time.Now()
	a.compactor(members.CompactorOptions{Interval: interval, Hold: hold})
	harness.Eventually(t, "etcd is compacted further than a is", func() bool { return c.compactedAt(client, 11) })
	if took := time.Since(began); took < hold {
		t.Errorf("a has held compaction for %v only, want %v", took, hold)
	}
	resp, err := client.Get(limited(t), compactKey)
	if err != nil {
		t.Fatalf("read %s: %v", compactKey, err)
	}
	compacted, err := strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
	if err != nil {
		t.Fatalf("read %s: %v", compactKey, err)
	}
	if earliest, _ := w.reached(compacted); time.Since(earliest) < interval {
		t.Errorf("etcd is compacted to a revision of %v ago", time.Since(earliest))
	}
}

func TestAFullDatabaseIsCompactedRegardlessOfReplicas(t *testing.T) {
	t.Parallel()
	// 84 % are in use at the end. A value is 32 pages of the database: with larger ones it grew beyond its
	// quota, since it finds no room for them between others, and etcd refused all writes.
	const quota, size = 24 << 20, 128 << 10
	c := startClusterWith(t, 1, quota)
	client := c.client()
	a := c.replicaWith(members.Options{Replica: members.Replica{ID: "a", Revision: 10}})
	if m := awaitCauses(t, a).Members[0]; m.QuotaBytes == 0 && strings.HasPrefix(m.Version, "3.5.") {
		t.Skip("etcd 3.5 does not say what its quota is: its default is assumed")
	}
	awaitListed(t, a, "a")
	startWriter(t, c)
	a.compactor(members.CompactorOptions{Interval: interval})
	harness.Eventually(t, "etcd is compacted to where a is", func() bool { return c.compactedAt(client, 9) })
	c.awaitTries(client, 2)
	if c.compactedAt(client, 10) {
		t.Fatal("etcd is compacted further than a is")
	}
	for i := range quota / size * 84 / 100 {
		key, value := "/registry/configmaps/default/large"+strconv.Itoa(i), strings.Repeat("x", size-1<<10)
		if _, err := client.Put(limited(t), key, value); err != nil {
			t.Fatalf("fill the database: %v", err)
		}
	}
	harness.Eventually(t, "etcd is compacted further than a is", func() bool { return c.compactedAt(client, 10) })
}

// bump is one change of the key of the compactors.
type bump struct{ revision, value int64 }

// checkBumps fails the test where the key was set twice in an interval, or to a revision that was
// younger than that.
func checkBumps(t *testing.T, w *writer, bumps []bump, every time.Duration) {
	t.Helper()
	for i, b := range bumps {
		_, set := w.reached(b.revision)
		if b.value > 0 {
			if was, _ := w.reached(b.value); set.Sub(was) < every {
				t.Errorf("revision %d was compacted after %v", b.value, set.Sub(was))
			}
		}
		if i == 0 {
			continue
		}
		if before, _ := w.reached(bumps[i-1].revision); set.Sub(before) < every {
			t.Errorf("the key was set at revisions %d and %d, within %v", bumps[i-1].revision, b.revision, set.Sub(before))
		}
		if b.value < bumps[i-1].value {
			t.Errorf("the key was set to %d after %d", b.value, bumps[i-1].value)
		}
	}
}

func TestCompactorsOfBothKindsCompactOnceAnInterval(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	w := startWriter(t, c)
	client := c.client()
	watched, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var bumps []bump
	var watching sync.WaitGroup
	watching.Go(func() {
		for resp := range client.Watch(watched, compactKey, clientv3.WithRev(1)) {
			for _, event := range resp.Events {
				value, err := strconv.ParseInt(string(event.Kv.Value), 10, 64)
				if err != nil {
					t.Errorf("read %s: %v", compactKey, err)
				}
				mu.Lock()
				bumps = append(bumps, bump{event.Kv.ModRevision, value})
				mu.Unlock()
			}
		}
	})
	a := c.replicaWith(members.Options{Replica: members.Replica{ID: "a", Revision: upToDate}})
	b := c.replicaWith(members.Options{Replica: members.Replica{ID: "b", Revision: upToDate}})
	for _, r := range []*replica{a, b} {
		r.compactor(members.CompactorOptions{Interval: interval})
	}
	upstream := []interface{ Stop() }{
		etcd3.NewCompactor(client, interval, clock.RealClock{}, nil),
		etcd3.NewCompactor(client, interval, clock.RealClock{}, nil),
	}
	c.awaitTries(client, 6)
	for _, u := range upstream {
		u.Stop()
	}
	c.awaitTries(client, 4) // gapless's go on
	upstream[0] = etcd3.NewCompactor(client, interval, clock.RealClock{}, nil)
	c.awaitTries(client, 2)
	a.stop()
	b.stop()
	c.awaitTries(client, 4) // kube-apiserver's goes on
	upstream[0].Stop()
	cancel()
	watching.Wait()
	checkBumps(t, w, bumps, interval)
	// The last one may have been stopped before it compacted.
	last, before := bumps[len(bumps)-1].value, bumps[len(bumps)-2].value
	if c.compactedAt(client, last) || !c.compactedAt(client, before-1) {
		t.Errorf("etcd is not compacted to %d or %d, which were noted", before, last)
	}
	t.Logf("the key was set %d times, the last time to %d", len(bumps), last)
}
