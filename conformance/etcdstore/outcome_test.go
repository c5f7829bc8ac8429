package etcdstore_test

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// lossy is a store over a wire that loses things.
type lossy struct {
	*testing.T

	member *oracle.Member
	wire   *wire
	client *clientv3.Client // not over the wire
	store  *running
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	member := startEtcd(t)
	w := newWire(t, member.URL())
	return &lossy{T: t, member: member, wire: w, client: connect(t, member.URL()), store: run(t, etcd.Options{
		Cluster: etcd.Cluster{Servers: []string{w.url()}}, Prefix: "/registry", Layout: plain("/registry/"), Memory: true,
	})}
}

func (l *lossy) put(txn store.Txn) int64 {
	l.Helper()
	done, err := l.store.Commit(within(l.T), txn)
	if err != nil {
		l.Fatalf("commit %q: %v", txn.Key, err)
	}
	return done.Revision
}

// during commits while something is held on the wire, until then returns; what was held is lost.
func (l *lossy) during(d direction, txn store.Txn, then func()) (store.Committed, error) {
	l.Helper()
	l.wire.hold(d)
	type outcome struct {
		done store.Committed
		err  error
	}
	outcomes := make(chan outcome)
	ctx := within(l.T)
	go func() { // ends with the call
		done, err := l.store.Commit(ctx, txn)
		outcomes <- outcome{done, err}
	}()
	then()
	l.wire.cut()
	l.wire.release()
	out := <-outcomes
	return out.done, out.err
}

// applied waits until a key in etcd has another mod revision than before, and returns it.
func (l *lossy) applied(key string, before int64) int64 {
	l.Helper()
	ctx := within(l.T)
	for {
		resp, err := l.client.Get(ctx, "/registry/"+key)
		if err != nil {
			l.Fatalf("read from etcd: %v", err)
		}
		now := int64(0)
		for _, kv := range resp.Kvs {
			now = kv.ModRevision
		}
		if now != before {
			return now
		}
		pause(ctx)
	}
}

func TestALostAnswerOfACreationIsFoundOut(t *testing.T) {
	l := newLossy(t)
	l.put(store.Txn{Key: "pods/first", Value: []byte("1")})
	var rev int64
	done, err := l.during(answers, store.Txn{Key: "pods/a", Value: []byte("of one identity")}, func() {
		rev = l.applied("pods/a", 0)
	})
	if err != nil || done.Revision != rev {
		t.Errorf("a creation at revision %d, of which the answer was lost, gives %d, %v", rev, done.Revision, err)
	}
}

// TestALostAnswerOfAnUpdateIsUnknown: another client may have written the same bytes.
func TestALostAnswerOfAnUpdateIsUnknown(t *testing.T) {
	l := newLossy(t)
	rev := l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	for _, txn := range []store.Txn{{Key: "pods/a", Value: []byte("2")}, {Key: "pods/a", Delete: true}} {
		txn.ExpectedModRevision = rev
		_, err := l.during(answers, txn, func() { rev = l.applied("pods/a", rev) })
		if !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("a lost answer of %+v gives %v", txn, err)
		}
	}
}

// TestALostAnswerIsUnknownIfChangesAreMissing: what followed the expected version is not known, only
// what came last.
func TestALostAnswerIsUnknownIfChangesAreMissing(t *testing.T) {
	l := newLossy(t)
	rev := l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	_, err := l.during(answers, store.Txn{Key: "pods/a", Value: []byte("2"), ExpectedModRevision: rev}, func() {
		l.applied("pods/a", rev)
		ctx := within(t)
		done, err := l.client.Put(ctx, "/registry/pods/a", string(mark)+"3")
		if err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
		if err := l.member.Compact(ctx, done.Header.Revision); err != nil {
			t.Fatalf("compact etcd: %v", err)
		}
	})
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("a lost answer of an update that was applied and overwritten gives %v", err)
	}
	if len(l.store.Stats().Holes) == 0 {
		t.Error("no change is missing")
	}
}

func TestALostRequestThatCannotTakeEffectAnyMoreIsAConflict(t *testing.T) {
	l := newLossy(t)
	rev := l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	var other int64
	_, err := l.during(requests, store.Txn{Key: "pods/a", Value: []byte("2"), ExpectedModRevision: rev}, func() {
		done, err := l.client.Put(within(t), "/registry/pods/a", string(mark)+"other")
		if err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
		other = done.Header.Revision
	})
	conflict, is := errors.AsType[*store.ConflictError](err)
	if !is || conflict.Current == nil || conflict.Current.ModRevision != other || string(conflict.Current.Value) != "other" {
		t.Errorf("a lost update after another one at %d gives %v", other, err)
	}
}

func TestALostRequestIsUnknownWhileItMayTakeEffect(t *testing.T) {
	l := newLossy(t)
	rev := l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	_, err := l.during(requests, store.Txn{Key: "pods/a", Value: []byte("2"), ExpectedModRevision: rev}, func() {
		ctx := within(t)
		for !l.waits() && ctx.Err() == nil {
			pause(ctx)
		}
	})
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("a lost update gives %v", err)
	}
	reaches(within(t), t, l.store, rev)
	if err := l.store.Writable(); err != nil { // a balancer would send no write that could show the contrary
		t.Errorf("etcd answers again, and the store says of its writes: %v", err)
	}
}

// waits reports whether a request has come to the wire and is held.
func (l *lossy) waits() bool { return l.wire.holding(requests) }

func TestManyFreshReadsCostFewRequests(t *testing.T) {
	l := newLossy(t)
	rev := l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	before := l.store.Stats().Reads
	l.wire.hold(answers)
	const readers = 300
	results := make(chan error, readers)
	ctx := within(t)
	for range readers {
		go func() { // ends with the answer
			now, err := l.store.Progress(ctx)
			if err == nil && now < rev {
				err = errors.New("it is behind an acknowledged write")
			}
			results <- err
		}()
	}
	for l.store.Stats().Reads == before && ctx.Err() == nil {
		pause(ctx)
	}
	l.wire.release()
	for range readers {
		if err := <-results; err != nil {
			t.Errorf("ask for the progress: %v", err)
		}
	}
	if sent := l.store.Stats().Reads - before; sent > readers/10 {
		t.Errorf("%d readers cost %d reads of etcd", readers, sent)
	}
}

// connected waits until the store says that it is connected, or that it is not.
func (l *lossy) connected(ctx context.Context, want bool) {
	l.Helper()
	for {
		err := l.store.Connected()
		if (err == nil) == want {
			return
		}
		if ctx.Err() != nil {
			l.Fatalf("the store says of its connection: %v; want it connected: %v", err, want)
		}
		pause(ctx)
	}
}

func TestConnectionsThatAreLostAreReportedAndHeal(t *testing.T) {
	l := newLossy(t)
	l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	ctx := within(t)
	l.connected(ctx, true)
	l.wire.hold(requests)
	l.wire.cut()
	l.connected(ctx, false)
	if page, err := l.store.Read(ctx, store.Query{Start: "pods/a"}); err != nil || len(page.Records) != 1 {
		t.Errorf("the last state is not readable: %+v, %v", page, err)
	}
	if _, err := l.store.Progress(ctx); err == nil {
		t.Error("a fresh read is answered while etcd cannot be reached")
	} else if e, is := errors.AsType[*store.UnavailableError](err); !is || !e.Reading {
		t.Errorf("a fresh read while etcd cannot be reached gives %v", err)
	}
	l.wire.release()
	l.wire.cut()
	l.connected(ctx, true)
	reaches(ctx, t, l.store, 1)
}
