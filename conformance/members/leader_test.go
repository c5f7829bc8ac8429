package members_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

var (
	faults = flag.Int("faults", 8, "how many faults TestOneReplicaLeadsAtATimeUnderFaults plays")
	seed   = flag.Uint64("seed", 0, "repeat a run of TestOneReplicaLeadsAtATimeUnderFaults; 0: a new one")
)

func TestLeadershipPassesOnWithinASecondOfAShutdown(t *testing.T) {
	c := startCluster(t, 1)
	replicas := map[string]*replica{"a": c.replica("a"), "b": c.replica("b")}
	var ts terms
	for _, r := range replicas {
		r.lead(&ts)
	}
	first := ts.awaitLeader(t)
	awaitListed(t, replicas["a"], "a", "b")
	stopped := time.Now()
	replicas[first.id].stop()
	second := ts.awaitLeader(t, first.id)
	t.Logf("another replica led %v after the shutdown began", second.begin.Sub(stopped))
	if took := second.begin.Sub(stopped); took > time.Second {
		t.Errorf("that took %v", took)
	}
	ts.check(t)
}

func TestLeadershipPassesOnAfterAKill(t *testing.T) {
	c := startCluster(t, 1)
	replicas := map[string]*replica{"a": c.replica("a"), "b": c.replica("b")}
	var ts terms
	for _, r := range replicas {
		r.lead(&ts)
	}
	first := ts.awaitLeader(t)
	awaitListed(t, replicas["a"], "a", "b")
	killed := time.Now()
	replicas[first.id].kill()
	second := ts.awaitLeader(t, first.id)
	took := second.begin.Sub(killed)
	t.Logf("another replica led %v after the kill, with a TTL of %v", took, ttl)
	if took > ttl+2*time.Second {
		t.Errorf("that took %v", took)
	}
	ts.check(t)
}

func TestALeaderThatEtcdDoesNotAnswerEndsBeforeAnotherBegins(t *testing.T) {
	c := startCluster(t, 3)
	// The member is paused, not killed: its connections stay, and nobody answers.
	a, b := c.replica("a", c.members[0]), c.replica("b", c.members[1:]...)
	var ts terms
	a.lead(&ts)
	ts.awaitLeader(t)
	b.lead(&ts)
	c.members[0].pause()
	ts.awaitLeader(t, "a")
	c.members[0].resume()
	awaitListed(t, b, "a", "b")
	b.stop()
	ts.awaitLeader(t, "b")
	a.stop()
	ts.check(t)
}

func TestNobodyLeadsWithoutQuorum(t *testing.T) {
	c := startCluster(t, 3)
	a, b := c.replica("a"), c.replica("b")
	var ts terms
	a.lead(&ts)
	b.lead(&ts)
	ts.awaitLeader(t)
	c.members[1].kill()
	c.members[2].kill()
	harness.Eventually(t, "nobody leads", func() bool { _, leads := ts.leader(); return !leads })
	before := ts.count()
	<-time.After(2 * ttl) // longer than leases last
	if now := ts.count(); now != before {
		t.Errorf("without quorum %d more replicas led", now-before)
	}
	c.members[1].start()
	ts.awaitLeader(t)
	a.stop()
	b.stop()
	ts.check(t)
}

func TestLeadReturnsWhatWorkReturns(t *testing.T) {
	c := startCluster(t, 1)
	a, b := c.replica("a"), c.replica("b")
	failure := errors.New("no more work")
	if err := a.Lead(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Lead returned %v, want %v", err, failure)
	}
	if err := b.Lead(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("another replica cannot lead then: %v", err)
	}
}

func TestALeaderWhoseKeyIsDeletedEnds(t *testing.T) {
	c := startCluster(t, 1)
	a := c.replica("a")
	var ts terms
	a.lead(&ts)
	first := ts.awaitLeader(t)
	if _, err := a.client.Delete(limited(t), "/gapless/registry/leader"); err != nil {
		t.Fatalf("delete the leader's key: %v", err)
	}
	harness.Eventually(t, "it leads again", func() bool {
		leader, leads := ts.leader()
		return leads && leader.begin.After(first.begin)
	})
	a.stop()
	ts.check(t)
}

// TestOneReplicaLeadsAtATimeUnderFaults kills and pauses members, and stops and kills replicas.
func TestOneReplicaLeadsAtATimeUnderFaults(t *testing.T) {
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("repeat with -seed=%d -faults=%d", chosen, *faults)
	random := rand.New(rand.NewPCG(chosen, 0))
	c := startCluster(t, 3)
	var ts terms
	replicas := make([]*replica, 3)
	begin := func(i int) {
		replicas[i] = c.replica(string(rune('a' + i)))
		replicas[i].lead(&ts)
	}
	for i := range replicas {
		begin(i)
	}
	for range *faults {
		leader := ts.awaitLeader(t)
		n := random.IntN(3)
		<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
		switch random.IntN(4) {
		case 0:
			t.Logf("kill member %d", n)
			c.members[n].kill()
			<-time.After(time.Duration(random.IntN(int(ttl))))
			c.members[n].start()
		case 1:
			t.Logf("pause member %d", n)
			c.members[n].pause()
			<-time.After(time.Duration(random.IntN(int(2 * ttl))))
			c.members[n].resume()
		case 2:
			t.Logf("stop the leader, %s", leader.id)
			replicas[leader.id[0]-'a'].stop()
			begin(int(leader.id[0] - 'a'))
		case 3:
			t.Logf("kill the leader, %s", leader.id)
			replicas[leader.id[0]-'a'].kill()
			begin(int(leader.id[0] - 'a'))
		}
	}
	ts.awaitLeader(t)
	for _, r := range replicas {
		r.stop()
	}
	ts.check(t)
}
