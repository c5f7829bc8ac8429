package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// serving is a layout that knows some resources only.
type serving struct {
	plain

	known map[string]string
}

func (s serving) StoreKey(key string) (string, bool) {
	rest, known := s.plain.StoreKey(key)
	_, served := s.known[store.ResourceOf(rest)]
	return rest, known && served
}

func (s serving) Key(key string) (string, error) {
	if _, served := s.known[store.ResourceOf(key)]; !served { // as if it were a custom resource
		key = "custom/" + key
	}
	return s.plain.Key(key)
}

// program is what a replica runs: one that serves these resources.
func program(resources ...string) map[string]string {
	known := map[string]string{}
	for _, name := range resources {
		known[name] = name + "/"
	}
	return known
}

// upgraded is a replica whose program is replaced.
type upgraded struct {
	*testing.T

	member *oracle.Member
	client *clientv3.Client
	files  *disk.Memory
	store  *running
}

func newUpgraded(t *testing.T) *upgraded {
	t.Helper()
	member := startEtcd(t)
	return &upgraded{T: t, member: member, client: connect(t, member.URL()), files: disk.NewMemory()}
}

// run starts a program over the files.
func (u *upgraded) run(known map[string]string, servers ...string) *running {
	u.Helper()
	o := optionsFor(u.member.URL())
	o.Layout, o.Known = serving{plain("/registry/"), known}, known
	o.FS, o.GroupWrites = u.files, 4
	if len(servers) > 0 {
		o.Cluster.Servers = servers
	}
	u.store = run(u.T, o)
	return u.store
}

// put writes to etcd directly, and returns the revision.
func (u *upgraded) put(key, value string) int64 {
	u.Helper()
	done, err := u.client.Put(within(u.T), "/registry/"+key, string(mark)+value)
	if err != nil {
		u.Fatalf("write to etcd: %v", err)
	}
	return done.Header.Revision
}

func (u *upgraded) del(key string) int64 {
	u.Helper()
	done, err := u.client.Delete(within(u.T), "/registry/"+key)
	if err != nil {
		u.Fatalf("delete from etcd: %v", err)
	}
	return done.Header.Revision
}

// compact compacts etcd as far as it goes.
func (u *upgraded) compact() {
	u.Helper()
	rev, err := u.member.Revision(within(u.T))
	if err != nil {
		u.Fatalf("read etcd's revision: %v", err)
	}
	if err := u.member.Compact(within(u.T), rev); err != nil {
		u.Fatalf("compact etcd: %v", err)
	}
}

// inEtcd is what etcd has of a resource: key, revision and value.
func (u *upgraded) inEtcd(resource string) map[string]string {
	u.Helper()
	resp, err := u.client.Get(within(u.T), "/registry/"+resource+"/", clientv3.WithPrefix())
	if err != nil {
		u.Fatalf("read etcd: %v", err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[strings.TrimPrefix(string(kv.Key), "/registry/")] = fmt.Sprint(kv.ModRevision, " ", kv.CreateRevision, " ",
			strings.TrimPrefix(string(kv.Value), string(mark)))
	}
	return all
}

// shows checks that a store shows what etcd has.
func (u *upgraded) shows(what string, s *running, resources ...string) {
	u.Helper()
	rev, err := u.member.Revision(within(u.T))
	if err != nil {
		u.Fatalf("%s: read etcd's revision: %v", what, err)
	}
	reaches(within(u.T), u.T, s, rev)
	for _, resource := range resources {
		page, err := s.Read(within(u.T), store.Query{Start: resource + "/", End: resource + "0"})
		if err != nil {
			u.Errorf("%s: read %s: %v", what, resource, err)
		}
		got := map[string]string{}
		for _, r := range page.Records {
			got[r.Key] = fmt.Sprint(r.ModRevision, " ", r.CreateRevision, " ", string(r.Value))
		}
		if want := u.inEtcd(resource); !maps.Equal(got, want) {
			u.Errorf("%s: %s are %v, want %v", what, resource, got, want)
		}
	}
}

// resumed reads the changes of a resource after a revision, up to now.
func (u *upgraded) resumed(s *running, resource string, after int64) ([]store.Change, error) {
	u.Helper()
	rev, err := s.Progress(within(u.T))
	if err != nil {
		u.Fatalf("ask for the latest revision: %v", err)
	}
	feed, err := s.Changes(within(u.T), store.From{Prefix: resource + "/", After: after, UpTo: rev})
	if err != nil {
		return nil, err
	}
	var changes []store.Change
	for through := after; through < rev; {
		batch, err := feed.Next(within(u.T))
		if err != nil {
			u.Fatalf("read the changes of %s after %d: %v", resource, after, err)
		}
		through, changes = batch.Through, append(changes, batch.Changes...)
	}
	return changes, feed.Close()
}

// unseen checks that what a store says about a resource at a revision is that it has not seen it.
func (u *upgraded) unseen(what string, s *running, resource string, rev int64) {
	u.Helper()
	_, err := s.Read(within(u.T), store.Query{Start: resource + "/", End: resource + "0", AtRevision: rev})
	_, resumed := u.resumed(s, resource, rev)
	for call, err := range map[string]error{"a read": err, "a stream": resumed} {
		e, is := errors.AsType[*store.CompactedError](err)
		if !is || e.Reason != store.ReasonUnseen || e.Resource != resource || e.Floor <= rev {
			u.Errorf("%s: %s of %s at %d gives %v", what, call, resource, rev, err)
		}
	}
}

// TestANewerProgramHasTheObjectsThatTheLogLacks: the log was written by one that did not serve their
// resource. Nothing is shown before they were read, and no reader of another resource notices.
func TestANewerProgramHasTheObjectsThatTheLogLacks(t *testing.T) {
	former, newer := program("pods"), program("pods", "widgets")
	for _, away := range []struct {
		name   string
		happen func(u *upgraded)
		hole   bool
	}{
		{name: "nothing happens", happen: func(*upgraded) {}},
		{name: "changes", happen: func(u *upgraded) {
			u.put("widgets/changed", "2")
			u.put("widgets/new", "1")
			u.put("pods/a", "away")
			u.del("widgets/gone")
		}},
		{name: "changes that etcd has compacted", hole: true, happen: func(u *upgraded) {
			u.put("widgets/changed", "2")
			u.put("widgets/new", "1")
			u.put("pods/a", "away")
			u.del("widgets/gone")
			u.compact()
		}},
	} {
		t.Run(away.name, func(t *testing.T) {
			u := newUpgraded(t)
			for _, key := range []string{"widgets/changed", "widgets/gone", "widgets/same", "pods/a"} {
				u.put(key, "1")
			}
			s := u.run(former)
			early := u.put("pods/a", "2")
			u.shows("the former program", s, "pods")
			late := u.put("pods/a", "3")
			u.shows("the former program", s, "pods")
			s.stop(t)
			away.happen(u)

			s = u.run(newer, "http://127.0.0.1:1") // nobody is there
			if err := s.Ready(); err == nil {
				t.Error("a replica that lacks objects is ready")
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			for _, q := range []store.Query{
				{Start: "widgets/", End: "widgets0"}, {Start: "pods/", End: "pods0", AtRevision: early},
			} {
				if page, err := s.Read(short, q); err == nil {
					t.Errorf("a replica that lacks objects shows %d at %d", len(page.Records), page.Revision)
				}
			}
			s.stop(t)

			check := func(what string) {
				t.Helper()
				s = u.run(newer)
				u.shows(what, s, "pods", "widgets")
				u.unseen(what, s, "widgets", early)
				changes, err := u.resumed(s, "pods", early)
				if err != nil || len(changes) == 0 || string(changes[len(changes)-1].Value) == "2" {
					t.Errorf("%s: after %d the changes of pods are %+v, %v", what, early, changes, err)
				}
				if holes := s.Stats().Holes; (len(holes) > 1) != away.hole {
					t.Errorf("%s: the holes are %v", what, holes)
				}
				page, err := s.Read(within(t), store.Query{Start: "pods/a", AtRevision: late})
				if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "3" {
					t.Errorf("%s: pods/a was %+v at %d, %v", what, page.Records, late, err)
				}
			}
			check("at once")
			u.commits(s, "widgets/same")
			s.stop(t)
			check("after a restart")
			s.stop(t)

			u.put("pods/a", "missed")
			u.put("widgets/changed", "missed")
			u.compact()
			s = u.run(newer)
			u.shows("after a hole", s, "pods", "widgets")
			u.unseen("after a hole", s, "widgets", early)
		})
	}
}

// commits checks that an object can be written in the version that is shown, with the changes of its resource
// after that.
func (u *upgraded) commits(s *running, key string) {
	u.Helper()
	page, err := s.Read(within(u.T), store.Query{Start: key})
	if err != nil || len(page.Records) != 1 {
		u.Fatalf("read %s: %d objects, %v", key, len(page.Records), err)
	}
	done, err := s.Commit(within(u.T), store.Txn{
		Key: key, Value: []byte("written"), ExpectedModRevision: page.Records[0].ModRevision,
	})
	if err != nil {
		u.Errorf("write %s: %v", key, err)
	}
	changes, err := u.resumed(s, store.ResourceOf(key), page.Revision)
	if err != nil || len(changes) != 1 || changes[0].Revision != done.Revision || changes[0].Previous == nil ||
		changes[0].Previous.ModRevision != page.Records[0].ModRevision {
		u.Errorf("the change of %s is seen as %+v, %v", key, changes, err)
	}
}

// TestAnOlderProgramInBetweenLeavesNoOldObjects: it does not follow a resource that the log had.
func TestAnOlderProgramInBetweenLeavesNoOldObjects(t *testing.T) {
	older, newer := program("pods"), program("pods", "widgets")
	u := newUpgraded(t)
	u.put("widgets/gone", "1")
	s := u.run(newer)
	u.shows("the newer program", s, "widgets")
	first := u.put("pods/a", "1")
	u.put("widgets/changed", "1") // the last change is of what the older one does not serve
	u.shows("the newer program", s, "pods", "widgets")
	s.stop(t)

	s = u.run(older)
	u.del("widgets/gone")
	u.put("widgets/changed", "2")
	between := u.put("pods/a", "2")
	u.shows("the older program", s, "pods")
	s.stop(t)

	s = u.run(newer)
	u.shows("the newer program again", s, "pods", "widgets")
	if floor := s.Stats().Floors["widgets"]; floor.Revision < between {
		t.Errorf("the oldest state of widgets is said to be %+v, before %d", floor, between)
	}
	for _, rev := range []int64{first, between - 1} {
		u.unseen("the newer program again", s, "widgets", rev)
	}
	if changes, err := u.resumed(s, "pods", first); err != nil || len(changes) != 1 {
		t.Errorf("after %d the changes of pods are %+v, %v", first, changes, err)
	}
}

// TestReadingWhatTheLogLacksMayBeCutOff: again and again, and with changes in between that etcd compacts.
func TestReadingWhatTheLogLacksMayBeCutOff(t *testing.T) {
	u := newUpgraded(t)
	const objects = 3000
	for i := 0; i < objects; i += 100 {
		var ops []clientv3.Op
		for j := i; j < i+100; j++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/widgets/%05d", j), string(mark)+"1"))
		}
		if _, err := u.client.Txn(within(t)).Then(ops...).Commit(); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
	}
	u.put("pods/a", "1")
	s := u.run(program("pods"))
	u.shows("the former program", s, "pods")
	s.stop(t)

	newer := program("pods", "widgets")
	for attempt := range 3 {
		s = u.run(newer)
		ctx := within(t)
		var cut *disk.Memory
		for keys := s.Stats().Keys; cut == nil && s.Stats().Reached == 0 && ctx.Err() == nil; {
			if stats := s.Stats(); stats.Reached == 0 && stats.Keys > keys {
				cut = u.files.Copy()
			}
		}
		s.stop(t)
		if cut == nil {
			t.Logf("attempt %d was not cut off", attempt)
			continue
		}
		u.files = cut
		u.put("widgets/00001", fmt.Sprint("attempt ", attempt))
		u.del(fmt.Sprintf("widgets/%05d", 10+attempt))
		u.put("pods/a", fmt.Sprint("attempt ", attempt))
		if attempt > 0 {
			u.compact()
		}
	}
	s = u.run(newer)
	u.shows("in the end", s, "pods", "widgets")
	s.stop(t)
	u.put("widgets/00002", "missed")
	u.compact()
	s = u.run(newer)
	u.shows("after a hole", s, "pods", "widgets")
}

// TestAnotherHistoryIsNoticedAlsoByANewerProgram: only resources that are new to the log may have objects that it
// lacks.
func TestAnotherHistoryIsNoticedAlsoByANewerProgram(t *testing.T) {
	u := newUpgraded(t)
	u.put("widgets/a", "1")
	u.put("pods/a", "1")
	s := u.run(program("pods"))
	u.shows("the former program", s, "pods")
	s.stop(t)
	other := newUpgraded(t)
	for range 20 {
		other.put("pods/other", "1")
	}
	known := program("pods", "widgets")
	o := optionsFor(other.member.URL())
	o.Layout, o.Known = serving{plain("/registry/"), known}, known
	o.FS = u.files
	refusesHistory(t, o)
}

var _ etcd.Layout = serving{}
