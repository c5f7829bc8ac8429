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
	for !silent.answered() || !other.answered() {
		reaches(ctx, t, s, 1)
	}
	silent.hold(requests)
	for asked := 0; asked < 6 || !silent.holding(requests); asked++ { // the members are asked in turn
		if _, err := s.Progress(ctx); err != nil {
			t.Fatalf("read how far etcd is: %v", err)
		}
	}
}
