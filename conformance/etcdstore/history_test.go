package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

func optionsFor(url string) etcd.Options {
	return etcd.Options{
		Cluster: etcd.Cluster{Servers: []string{url}}, Prefix: "/registry", Layout: plain("/registry/"), Memory: true,
	}
}

// restartable is an etcd that can be stopped and started again over its directory.
type restartable struct {
	*testing.T

	dir    string
	member *oracle.Member
}

func (r *restartable) start() *oracle.Member {
	r.Helper()
	member, err := oracle.Start(r.Context(), oracle.Options{Dir: r.dir, NoSync: true})
	if err != nil {
		r.Fatalf("start etcd: %v", err)
	}
	r.member = member
	return member
}

func (r *restartable) stop() {
	r.Helper()
	if err := r.member.Stop(); err != nil {
		r.Fatalf("stop etcd: %v", err)
	}
}

// put writes to an etcd directly, n times, and returns the last revision.
func (r *restartable) put(key string, n int) int64 {
	r.Helper()
	client, err := etcd.Dial(context.WithoutCancel(r.Context()), etcd.Cluster{Servers: []string{r.member.URL()}})
	if err != nil {
		r.Fatalf("make a client of etcd: %v", err)
	}
	var rev int64
	for i := range n {
		done, err := client.Put(within(r.T), "/registry/"+key, fmt.Sprint(string(mark), i))
		if err != nil {
			r.Fatalf("write to etcd: %v", err)
		}
		rev = done.Header.Revision
	}
	if err := client.Close(); err != nil {
		r.Fatalf("close the client of etcd: %v", err)
	}
	return rev
}

// refusesHistory opens a store over files, which must end with *etcd.HistoryError; it returns that.
func refusesHistory(t *testing.T, o etcd.Options) *etcd.HistoryError {
	t.Helper()
	r, ctx := run(t, o), within(t)
	go func() { // ends with the store: reads reach each server in turn
		for ctx.Err() == nil {
			if _, err := r.Progress(ctx); errors.Is(err, store.ErrClosed) {
				return
			}
			pause(ctx)
		}
	}()
	select {
	case err := <-r.ended:
		refused, is := errors.AsType[*etcd.HistoryError](err)
		if !is {
			t.Fatalf("a store over another history ends with %v", err)
		}
		return refused
	case <-ctx.Done():
		t.Fatal("a store over another history goes on")
	}
	return nil
}

func TestAnotherHistoryIsRefusedByName(t *testing.T) {
	r := &restartable{T: t, dir: t.TempDir()}
	r.start()
	r.put("pods/a", 5)
	r.stop()
	old := t.TempDir()
	if err := os.CopyFS(filepath.Join(old, "etcd"), os.DirFS(filepath.Join(r.dir, "etcd"))); err != nil {
		t.Fatalf("copy the directory of etcd: %v", err)
	}

	url := r.start().URL()
	rev := r.put("pods/b", 5)
	files := disk.NewMemory()
	o := optionsFor(url)
	o.FS = files
	s := run(t, o)
	reaches(within(t), t, s, rev)
	s.stop(t)
	r.stop()

	r.dir = old // an older snapshot
	o.Cluster.Servers = []string{r.start().URL()}
	o.FS = files.Copy()
	refusesHistory(t, o)
	r.put("pods/c", 20) // it is further than the replica, but another history
	o.FS = files.Copy()
	refusesHistory(t, o)
	r.stop()

	r.dir = t.TempDir() // a new cluster, whose id is the same: it has the same members
	o.Cluster.Servers = []string{r.start().URL()}
	r.put("pods/d", 30)
	o.FS = files.Copy()
	refusesHistory(t, o)

	o.FS, o.Prefix = files.Copy(), "/other"
	refusesHistory(t, o)
	r.stop()
}

// TestAStateThatWasCutOffIsReadAgain: a crash while a state is recorded leaves nothing that readers see.
func TestAStateThatWasCutOffIsReadAgain(t *testing.T) {
	member := startEtcd(t)
	client := connect(t, member.URL())
	const objects = 6000
	want := map[string]string{}
	for i := 0; i < objects; i += 100 {
		var ops []clientv3.Op
		for j := i; j < i+100; j++ {
			key := fmt.Sprintf("pods/%05d", j)
			want[key] = fmt.Sprint(j)
			ops = append(ops, clientv3.OpPut("/registry/"+key, string(mark)+want[key]))
		}
		if _, err := client.Txn(within(t)).Then(ops...).Commit(); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
	}
	files := disk.NewMemory()
	o := optionsFor(member.URL())
	o.FS, o.GroupWrites = files, 4
	s := run(t, o)
	ctx := within(t)
	var crashed *disk.Memory
	for crashed == nil && ctx.Err() == nil {
		if stats := s.Stats(); stats.Reached == 0 && stats.Keys > 100 {
			crashed = files.Copy()
		} else if stats.Reached > 0 {
			t.Skip("the state was recorded before it was looked at")
		}
	}
	s.stop(t)

	o.FS = crashed
	o.Cluster.Servers = []string{"http://127.0.0.1:1"} // nobody is there
	away := run(t, o)
	if err := away.Ready(); err == nil {
		t.Error("a replica with a part of a state is ready")
	}
	if stats := away.Stats(); stats.Keys == 0 || stats.Keys >= objects {
		t.Fatalf("the crash left %d of %d objects", stats.Keys, objects)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if page, err := away.Read(short, store.Query{Start: "pods/", End: "pods0"}); err == nil {
		t.Errorf("a part of a state is read: %d objects at %d", len(page.Records), page.Revision)
	}
	away.stop(t)

	if _, err := client.Delete(ctx, "/registry/pods/00000"); err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	delete(want, "pods/00000")
	o.Cluster.Servers = []string{member.URL()}
	again := run(t, o)
	page, err := again.Read(ctx, store.Query{Start: "pods/", End: "pods0"})
	if err != nil {
		t.Fatalf("read the state: %v", err)
	}
	if len(page.Records) != len(want) {
		t.Errorf("%d objects, want %d", len(page.Records), len(want))
	}
	for _, r := range page.Records {
		if want[r.Key] != string(r.Value) {
			t.Errorf("%s is %q, want %q", r.Key, r.Value, want[r.Key])
		}
	}
}

// TestARevisionMayBeLargerThanAGroupOfTheLog: its changes come together all the same.
func TestARevisionMayBeLargerThanAGroupOfTheLog(t *testing.T) {
	member := startEtcd(t)
	client := connect(t, member.URL())
	o := optionsFor(member.URL())
	files := disk.NewMemory()
	o.FS = files
	s := run(t, o)
	first, err := s.Commit(within(t), store.Txn{Key: "pods/gone", Value: []byte("1")})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	ops := []clientv3.Op{clientv3.OpDelete("/registry/pods/gone")}
	for i := range 8 {
		ops = append(ops, clientv3.OpPut(fmt.Sprint("/registry/pods/", i), string(mark)+strings.Repeat("x", 1050<<10)))
	}
	done, err := client.Txn(within(t)).Then(ops...).Commit()
	if err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	reaches(within(t), t, s, done.Header.Revision)
	check := func(what string, s *running) {
		t.Helper()
		for _, w := range []struct{ revision, objects int64 }{{first.Revision, 1}, {done.Header.Revision, 8}} {
			page, err := s.Read(within(t), store.Query{Start: "pods/", End: "pods0", AtRevision: w.revision})
			if err != nil || len(page.Records) != int(w.objects) {
				t.Errorf("%s: %d objects at revision %d, %v, want %d", what, len(page.Records), w.revision, err, w.objects)
			}
		}
		feed, err := s.Changes(within(t), store.From{After: first.Revision, UpTo: done.Header.Revision})
		if err != nil {
			t.Fatalf("%s: read the changes: %v", what, err)
		}
		batch, err := feed.Next(within(t))
		if err != nil || len(batch.Changes) != 9 || !batch.Changes[0].Deleted || len(batch.Holes) > 0 {
			t.Errorf("%s: a batch of %d changes with the holes %v, %v", what, len(batch.Changes), batch.Holes, err)
		}
		if err := feed.Close(); err != nil {
			t.Errorf("close the feed: %v", err)
		}
	}
	check("at once", s)
	o.FS = files.Copy()
	s.stop(t)
	check("after a restart", run(t, o))
}

func TestObjectsWithATimeToLiveExpireAndShareLeases(t *testing.T) {
	member := startEtcd(t)
	client := connect(t, member.URL())
	o := optionsFor(member.URL())
	o.TTL = func(key string) time.Duration {
		switch store.ResourceOf(key) {
		case "events":
			return 2 * time.Second
		case "leases":
			return time.Hour
		}
		return 0
	}
	s := run(t, o)
	var last int64
	create := func(resource string) {
		t.Helper()
		for i := range 20 {
			done, err := s.Commit(within(t), store.Txn{Key: fmt.Sprint(resource, i), Value: []byte("1")})
			if err != nil {
				t.Fatalf("commit: %v", err)
			}
			last = done.Revision
		}
	}
	create("leases/")
	leases, err := client.Leases(within(t))
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("20 objects have %d leases, %v", len(leases.Leases), err)
	}
	create("events/")
	if _, err := s.Commit(within(t), store.Txn{Key: "pods/a", Value: []byte("1")}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	feed, err := s.Changes(within(t), store.From{Prefix: "events/", After: last})
	if err != nil {
		t.Fatalf("read the changes: %v", err)
	}
	for deleted := 0; deleted < 20; {
		batch, err := feed.Next(within(t))
		if err != nil {
			t.Fatalf("wait for the end of objects: %v", err)
		}
		for _, c := range batch.Changes {
			if !c.Deleted || c.Previous == nil {
				t.Errorf("an object that expires gives %+v", c)
			}
			deleted++
		}
	}
	if err := feed.Close(); err != nil {
		t.Errorf("close the feed: %v", err)
	}
	if page, err := s.Read(within(t), store.Query{Start: "pods/a"}); err != nil || len(page.Records) != 1 {
		t.Errorf("an object without a time to live is gone: %v", err)
	}
}

func TestAnEtcdWithoutSpaceIsNamed(t *testing.T) {
	member := oracle.StartFor(t, oracle.Options{NoSync: true, QuotaBytes: 2 << 20})
	s := run(t, optionsFor(member.URL()))
	ctx := within(t)
	var err error
	for i := 0; err == nil && ctx.Err() == nil; i++ {
		_, err = s.Commit(ctx, store.Txn{Key: fmt.Sprint("pods/", i), Value: []byte(strings.Repeat("x", 200<<10))})
	}
	refused, is := errors.AsType[*store.UnavailableError](err)
	if !is || !strings.Contains(refused.Error(), "NOSPACE") {
		t.Fatalf("a write without space gives %v", err)
	}
	if err := s.Writable(); err == nil || !strings.Contains(err.Error(), "NOSPACE") {
		t.Errorf("the store says of its writes: %v", err)
	}
	if err := s.Connected(); err != nil {
		t.Errorf("the store says of its connection: %v", err)
	}
	large := store.Txn{Key: "pods/large", Value: make([]byte, 2<<20)}
	if _, err := s.Commit(ctx, large); err == nil {
		t.Error("a write of 2 MiB is taken")
	} else if e, is := errors.AsType[*store.TooLargeError](err); !is || e.Bytes <= e.Limit {
		t.Errorf("a write of 2 MiB gives %v", err)
	}
}
