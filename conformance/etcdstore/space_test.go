package etcdstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
)

// TestAWriteThatIsRefusedForSpaceWasNotApplied: etcd says that its space is used up also after it has
// applied a write.
func TestAWriteThatIsRefusedForSpaceWasNotApplied(t *testing.T) {
	member := oracle.StartFor(t, oracle.Options{NoSync: true, QuotaBytes: 2 << 20})
	s := run(t, optionsFor(member.URL()))
	ctx := within(t)
	const writers = 96
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]error{}
	revisions := map[string]int64{}
	for w := range writers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("pods/%d-%d", w, n)
				done, err := s.Commit(ctx, store.Txn{Key: key, Value: []byte(key + strings.Repeat("x", 32<<10))})
				mu.Lock()
				outcomes[key], revisions[key] = err, done.Revision
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	resp, err := connect(t, member.URL()).Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatalf("read from etcd: %v", err)
	}
	found := map[string]int64{}
	for _, kv := range resp.Kvs {
		found[strings.TrimPrefix(string(kv.Key), "/registry/")] = kv.ModRevision
	}
	refused := 0
	for key, err := range outcomes {
		if err == nil {
			if found[key] != revisions[key] {
				t.Errorf("%s was acknowledged at revision %d, and etcd has it at %d", key, revisions[key], found[key])
			}
			continue
		}
		if errors.Is(err, store.ErrOutcomeUnknown) { // of a machine that is too slow
			continue
		}
		if e, is := errors.AsType[*store.UnavailableError](err); !is || !strings.Contains(e.Error(), "NOSPACE") {
			t.Errorf("a write without space gives %v", err)
		} else if found[key] != 0 {
			t.Errorf("%s was refused, and etcd has it at revision %d: %v", key, found[key], err)
		}
		refused++
	}
	if refused == 0 {
		t.Error("no writer was refused")
	}
}
