package etcdstore_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEtcd runs an etcd until the test ends.
func startEtcd(t *testing.T) *oracle.Member {
	t.Helper()
	return oracle.StartFor(t, oracle.Options{NoSync: true, MaxRequestBytes: 12 << 20})
}

// connect returns a client of etcd, until the test ends.
func connect(t *testing.T, url string) *clientv3.Client {
	t.Helper()
	return oracle.ClientFor(t, url)
}

// plain is a layout that writes values as they are, behind a mark.
type plain string

var mark = []byte("v1:")

func (p plain) Key(key string) (string, error) { return string(p) + key, nil }

func (p plain) StoreKey(key string) (string, bool) {
	rest, found := strings.CutPrefix(key, string(p))
	return rest, found && strings.Contains(rest, "/") && !strings.HasPrefix(rest, "ranges/")
}

func (p plain) Encode(_ string, value []byte, _ func() ([]byte, error)) ([]byte, error) {
	return append(bytes.Clone(mark), value...), nil
}

func (p plain) AppendDecoded(b []byte, _ string, stored []byte) ([]byte, error) {
	return append(b, bytes.TrimPrefix(stored, mark)...), nil
}

// running is a store that follows etcd.
type running struct {
	*etcd.Store

	ended chan error
}

// run opens a store and runs it until stop, or until the test ends.
func run(t *testing.T, o etcd.Options) *running {
	t.Helper()
	s, err := etcd.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	r := &running{Store: s, ended: make(chan error, 1)}
	go func() { r.ended <- s.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return r
}

// stop ends the store.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatalf("close the store: %v", err)
	}
	if err := <-r.ended; err != nil {
		t.Fatalf("run the store: %v", err)
	}
}

// within ends with the test, and bounds a wait that would be a failure.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pauseFor is how long it is waited between two questions.
const pauseFor = 10 * time.Millisecond

func pause(ctx context.Context) {
	select {
	case <-time.After(pauseFor):
	case <-ctx.Done():
	}
}

// reaches waits until a store has a revision, also over a connection that has to be made again, and
// returns how far it has come.
func reaches(ctx context.Context, t *testing.T, s store.Store, rev int64) int64 {
	t.Helper()
	for {
		now, err := s.Progress(ctx)
		if err == nil && now >= rev {
			return now
		}
		pause(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the store has reached %d, %v, and not %d", now, err, rev)
		}
	}
}
