package etcdstore_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/store/etcd"
)

// TestReadersDoNotWaitForAMemberThatIsSilent: one that lost its network keeps its connections, and is asked in
// its turn until they are found to be dead.
func TestReadersDoNotWaitForAMemberThatIsSilent(t *testing.T) {
	member := startEtcd(t)
	silent, other := newWire(t, member.URL()), newWire(t, member.URL())
	options := optionsFor(member.URL())
	options.Cluster = etcd.Cluster{Servers: []string{silent.url(), other.url()}}
	s := run(t, options)
	ctx := within(t)
	for silent.connections() == 0 || other.connections() == 0 {
		reaches(ctx, t, s, 1)
	}
	silent.hold(requests)
	for range 6 { // the members are asked in turn
		if _, err := s.Progress(ctx); err != nil {
			t.Errorf("read how far etcd is: %v", err)
		}
	}
	if !silent.holding(requests) {
		t.Error("the silent member was never asked")
	}
}
