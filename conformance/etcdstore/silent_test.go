package etcdstore_test

import (
	"errors"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
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

// TestAWriteIsGivenUpBeforeItsConnectionIs: an etcd that is silent keeps its connections, and what was sent over them
// waits until they are found to be dead.
func TestAWriteIsGivenUpBeforeItsConnectionIs(t *testing.T) {
	l := newLossy(t)
	l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	before := l.wire.connections()
	l.wire.hold(requests)
	_, err := l.store.Commit(within(t), store.Txn{Key: "pods/b", Value: []byte("1")})
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("a write to a silent etcd gives %v", err)
	}
	if now := l.wire.connections(); now != before {
		t.Errorf("the write waited for the end of its connection: %d were made, and then %d", before, now)
	}
}
