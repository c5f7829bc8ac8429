package members_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// listed returns the IDs of the replicas that a replica lists.
func listed(t *testing.T, by *replica) []string {
	t.Helper()
	view, err := by.List(limited(t))
	if err != nil {
		t.Fatalf("list the replicas: %v", err)
	}
	ids := []string{}
	for _, r := range view.Replicas {
		ids = append(ids, r.ID)
	}
	return ids
}

func awaitListed(t *testing.T, by *replica, ids ...string) {
	t.Helper()
	harness.Eventually(t, "the right replicas are listed", func() bool { return slices.Equal(listed(t, by), ids) })
}

// awaitEnd waits until a replica's Run has returned.
func awaitEnd(t *testing.T, r *replica) {
	t.Helper()
	ended := make(chan struct{})
	go func() { r.running.Wait(); close(ended) }() // it is waited for, or the test has failed
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("replica %s goes on after 30 s", r.id)
	}
}

func TestAReplicaIsListedWithHowFarItIs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	began := time.Now().Add(-time.Second)
	a := c.replicaWith(members.Options{Replica: members.Replica{ID: "a"}, ReportEvery: 20 * time.Millisecond})
	b := c.replica("b")
	awaitListed(t, b, "a", "b")
	a.reached.Store(1234)
	harness.Eventually(t, "the revision is reported", func() bool {
		view, err := b.List(limited(t))
		if err != nil {
			t.Fatalf("list the replicas: %v", err)
		}
		r := view.Replicas[0]
		if r.ID != "a" || r.URL != "https://a.example" || r.Version != "v1" || r.Started.Before(began) {
			t.Fatalf("a is listed as %+v", r)
		}
		return r.Revision == 1234 && view.Revision > 1
	})
}

func TestAReplicaThatStopsIsListedNoLonger(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a, b := c.replica("a"), c.replica("b")
	awaitListed(t, b, "a", "b")
	a.stop()
	if ids := listed(t, b); !slices.Equal(ids, []string{"b"}) {
		t.Errorf("after a has stopped %v are listed", ids)
	}
}

func TestAReplicaThatDiesIsListedUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a, b := c.replica("a"), c.replica("b")
	awaitListed(t, b, "a", "b")
	a.kill()
	if ids := listed(t, b); !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("just after a was killed %v are listed", ids)
	}
	awaitListed(t, b, "b")
}

func TestAReplicaRegistersAgainWhenEtcdHasEndedItsLease(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a := c.replica("a")
	awaitListed(t, a, "a")
	leases, err := a.client.Leases(limited(t))
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("list the leases: %v, %v", leases, err)
	}
	if _, err := a.client.Revoke(limited(t), leases.Leases[0].ID); err != nil {
		t.Fatalf("revoke a lease: %v", err)
	}
	if ids := listed(t, a); len(ids) != 0 {
		t.Errorf("without its lease %v are listed", ids)
	}
	awaitListed(t, a, "a")
}

func TestALeaseOutlivesAnAbsenceOfEtcd(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a := c.replica("a")
	awaitListed(t, a, "a")
	before, err := a.client.Get(limited(t), "/gapless/registry/replicas/a")
	if err != nil {
		t.Fatalf("read the record: %v", err)
	}
	c.members[0].kill()
	var ts terms
	a.lead(&ts) // it has to wait
	<-time.After(ttl + time.Second)
	c.members[0].start()
	ts.awaitLeader(t)
	after, err := a.client.Get(limited(t), "/gapless/registry/replicas/a")
	if err != nil || len(after.Kvs) != 1 || after.Kvs[0].CreateRevision != before.Kvs[0].CreateRevision {
		t.Errorf("the record was %v and is %v, %v", before.Kvs, after, err)
	}
}

func TestASecondProcessAsTheSameReplicaIsNoticed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	first := c.replicaWith(members.Options{Replica: members.Replica{ID: "a"}, ReportEvery: 20 * time.Millisecond})
	awaitListed(t, first, "a")
	second := c.replica("a")
	ended := make(chan struct{})
	go func() { first.running.Wait(); close(ended) }()
	harness.Eventually(t, "the first process ends", func() bool {
		first.reached.Add(1) // there is something to report
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if twice, is := errors.AsType[*members.TwiceError](first.ended); !is || twice.ID != "a" || twice.URL != "https://a.example" {
		t.Errorf("the first process ended with %v", first.ended)
	}
	if ids := listed(t, second); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("the first process has removed the record of the second: %v", ids)
	}
}

// TestAReplicaAndAMigrationSeeEachOther lets both begin at once, some times: one of them does, and the other one says
// why it does not.
func TestAReplicaAndAMigrationSeeEachOther(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	observer := c.client()
	prefix, err := members.Prefix("/registry")
	if err != nil {
		t.Fatalf("name the prefix: %v", err)
	}
	for i := range 20 {
		note := &members.Migration{ID: "x", From: "a directory"}
		noted := make(chan error, 1)
		begin := func() { noted <- note.Begin(limited(t), observer, prefix) }
		if i > 0 { // in the first round the replica comes later
			go begin() // noted gets its answer
		} else {
			begin()
		}
		r := c.replica("a")
		switch err := <-noted; {
		case err == nil:
			awaitEnd(t, r)
			if seen, is := errors.AsType[*members.Migration](r.ended); !is || seen.ID != "x" || seen.From != "a directory" {
				t.Fatalf("round %d: beside a migration the replica ended with %v", i, r.ended)
			}
			if ids := listed(t, r); len(ids) > 0 {
				t.Fatalf("round %d: beside a migration %v are registered", i, ids)
			}
			if err := note.End(limited(t), observer); err != nil {
				t.Fatalf("round %d: end the migration: %v", i, err)
			}
		case errors.Is(err, members.ErrReplicas):
			awaitListed(t, r, "a")
		default:
			t.Fatalf("round %d: begin the migration: %v", i, err)
		}
		r.stop()
	}
}

func TestOwnKeysAreNotBelowThePrefixOfObjects(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	a := c.replica("a")
	var ts terms
	a.lead(&ts)
	ts.awaitLeader(t)
	awaitListed(t, a, "a") // it may lead before it is registered
	all, err := a.client.Get(limited(t), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatalf("list all keys: %v", err)
	}
	keys := []string{}
	for _, kv := range all.Kvs {
		keys = append(keys, string(kv.Key))
	}
	if want := []string{"/gapless/registry/leader", "/gapless/registry/replicas/a"}; !slices.Equal(keys, want) {
		t.Errorf("the keys are %v, want %v", keys, want)
	}
}
