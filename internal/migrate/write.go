package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

const (
	// batchObjects is how many objects one transaction creates: etcd takes 128 operations by default
	// (etcd server/embed DefaultMaxTxnOps), with as many conditions.
	batchObjects = 100
	// batchBytes is how large they are together, unless it is one: etcd takes requests of 1.5 MiB by default.
	batchBytes = 512 << 10
	// inFlight is how many transactions are sent at once: etcd syncs its log once for several.
	inFlight = 8
	// attemptFor bounds one attempt, and patience how long a transaction is tried again: a new leader takes a few
	// seconds.
	attemptFor = 15 * time.Second
	patience   = time.Minute
	retryAfter = 200 * time.Millisecond
)

// writer creates objects in etcd, some transactions at once. It has the memory of those.
type writer struct {
	*mover

	mark    *members.Migration
	group   *errgroup.Group
	ctx     context.Context //nolint:containedctx // it is one call
	leases  *leases
	batch   []object
	bytes   int
	written atomic.Int64
}

// newWriter returns a writer. The caller calls finish.
func (m *mover) newWriter(ctx context.Context, mark *members.Migration) *writer {
	w := &writer{mover: m, mark: mark, leases: newLeases(m.client, m.EventTTL)}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(inFlight)
	return w
}

// put creates an object, now or later.
func (w *writer) put(o object) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if len(w.batch) == batchObjects || len(w.batch) > 0 && w.bytes+len(o.value) > batchBytes {
		w.flush()
	}
	w.batch = append(w.batch, o)
	w.bytes += len(o.value)
	return nil
}

func (w *writer) flush() {
	batch := w.batch
	w.batch, w.bytes = nil, 0
	if len(batch) > 0 {
		w.group.Go(func() error { return w.send(batch) }) // finish waits for it
	}
}

// finish returns when everything was written.
func (w *writer) finish() error {
	w.flush()
	return w.group.Wait()
}

// sent is an object as etcd gets it.
type sent struct {
	*object

	at, value string
}

// send creates the objects of a batch, all or none.
func (w *writer) send(batch []object) error {
	puts := make([]sent, 0, len(batch))
	for i := range batch {
		o := &batch[i]
		at, err := w.layout.Key(o.key)
		if err != nil {
			return err
		}
		value, err := w.layout.Encode(o.key, o.value, nil)
		if err != nil {
			return err
		}
		puts = append(puts, sent{o, at, string(value)})
	}
	for began := time.Now(); ; {
		err := w.try(puts)
		if err == nil || w.ctx.Err() != nil || isFinal(err) || time.Since(began) > patience {
			return err
		}
		select {
		case <-time.After(retryAfter):
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
}

// transaction creates objects, all or none.
type transaction struct {
	conditions     []clientv3.Cmp
	creates, reads []clientv3.Op
}

// create adds the creation of an object. If a condition does not hold, what is there is read.
func (t *transaction) create(s sent, lease clientv3.LeaseID) {
	t.conditions = append(t.conditions, clientv3.Compare(clientv3.CreateRevision(s.at), "=", 0))
	t.creates = append(t.creates, clientv3.OpPut(s.at, s.value, clientv3.WithLease(lease)))
	t.reads = append(t.reads, clientv3.OpGet(s.at))
}

func (t *transaction) commit(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
	return client.Txn(clientv3.WithRequireLeader(ctx)).If(t.conditions...).Then(t.creates...).Else(t.reads...).Commit()
}

// try sends the transaction. It may have taken effect already, in an earlier attempt that had no answer.
func (w *writer) try(puts []sent) error {
	ctx, cancel := context.WithTimeoutCause(w.ctx, attemptFor, errNoContact)
	defer cancel()
	txn := transaction{conditions: []clientv3.Cmp{w.mark.Holds()}}
	var tried []sent
	for _, p := range puts {
		if w.expired(p.object) {
			continue
		}
		var lease clientv3.LeaseID
		if at, does := w.expires(p.object); does {
			var err error
			if lease, err = w.leases.until(ctx, at); err != nil {
				return err
			}
		}
		tried = append(tried, p)
		txn.create(p, lease)
	}
	if len(tried) == 0 {
		return nil
	}
	resp, err := txn.commit(ctx, w.client)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		w.leases.forget()
	}
	if err != nil {
		return fmt.Errorf("write %s and %d others to etcd: %w", tried[0].at, len(tried)-1, err)
	}
	if !resp.Succeeded {
		if err := w.isWritten(ctx, tried, resp); err != nil {
			return err
		}
	}
	w.written.Add(int64(len(tried)))
	return nil
}

// errForeign says that somebody else writes where the migration does.
var errForeign = errors.New("it is in etcd already: somebody else has written it, stop that first")

// isWritten returns an error if what etcd has is not what was sent: the bytes are.
func (w *writer) isWritten(ctx context.Context, tried []sent, resp *clientv3.TxnResponse) error {
	if err := w.mark.Holding(ctx, w.client); err != nil {
		return err
	}
	for i, r := range resp.Responses {
		kvs := r.GetResponseRange().Kvs
		if len(kvs) == 0 {
			continue // it has expired, or is not there because another one is
		}
		if string(kvs[0].Value) != tried[i].value {
			return fmt.Errorf("%s: %w", tried[i].at, errForeign)
		}
	}
	return nil
}

// isFinal reports whether it is of no use to try again.
func isFinal(err error) bool {
	for _, reason := range []error{
		errForeign, members.ErrOvertaken, rpctypes.ErrRequestTooLarge, rpctypes.ErrNoSpace, rpctypes.ErrPermissionDenied,
		rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	code := status.Code(err)
	if e, is := errors.AsType[rpctypes.EtcdError](err); is {
		code = e.Code()
	}
	return code == codes.InvalidArgument || code == codes.FailedPrecondition
}

// leaseObjects is how many objects have one lease at most (apiserver storage/etcd3/lease_manager.go).
const leaseObjects = 1000

// leases are those of objects that expire. Objects share one if they expire in the same part of the time to live,
// as those do that are written one after the other.
type leases struct {
	client *clientv3.Client
	part   time.Duration
	turn   chan struct{} // holds one token: the sender may use what follows
	byEnd  map[time.Time]*lease
}

type lease struct {
	id      clientv3.LeaseID
	objects int
}

func newLeases(client *clientv3.Client, ttl time.Duration) *leases {
	return &leases{
		client: client, part: max(min(ttl/20, time.Minute).Truncate(time.Second), time.Second),
		turn: make(chan struct{}, 1), byEnd: map[time.Time]*lease{},
	}
}

// until returns a lease that ends at a time or a little later.
func (l *leases) until(ctx context.Context, at time.Time) (clientv3.LeaseID, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	end := at.Round(0).Truncate(l.part).Add(l.part)
	known := l.byEnd[end]
	if known == nil || known.objects == leaseObjects {
		seconds := int64((time.Until(end) + time.Second - 1) / time.Second)
		granted, err := l.client.Grant(ctx, max(seconds, 1))
		if err != nil {
			return 0, fmt.Errorf("take a lease of %d s from etcd: %w", seconds, err)
		}
		known = &lease{id: granted.ID}
		l.byEnd[end] = known
	}
	known.objects++
	return known.id, nil
}

// forget makes until take new leases: one of the old ones is gone.
func (l *leases) forget() {
	l.turn <- struct{}{} // nobody has it for longer than a request
	clear(l.byEnd)
	<-l.turn
}
