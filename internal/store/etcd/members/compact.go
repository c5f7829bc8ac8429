package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	// compactKey holds the last compacted revision, and its version is the compactors' clock:
	// apiserver storage/etcd3/compact.go compactRevKey.
	compactKey = "compact_rev_key"

	// DefaultInterval is that of kube-apiserver's flag --etcd-compaction-interval.
	DefaultInterval = 5 * time.Minute
	// DefaultHold is how long a replica that lags holds compaction.
	DefaultHold = time.Hour
	// fullShare is the share of its quota from which on a database is compacted regardless.
	fullShare = 0.8

	// askFor is how long a compactor waits for replicas that it has asked how far they are, and
	// askAgain how often it looks.
	askFor   = 2 * time.Second
	askAgain = 100 * time.Millisecond
	// compactFor is how long an answer of etcd may take that has to compact.
	compactFor = 30 * time.Second
)

// CompactorOptions configure a Compactor.
type CompactorOptions struct {
	// Interval is how long etcd keeps history at least, and the time between two compactions.
	// 0: this replica does not compact.
	Interval time.Duration
	// Hold is for how long a replica that lags holds compaction; 0: DefaultHold.
	Hold time.Duration
}

// Compactor compacts etcd by the protocol of kube-apiserver (apiserver storage/etcd3/compact.go), so
// that any number of replicas and kube-apiservers on one etcd keep out of each other's way. Each of
// them tries, once an interval, to set the common key, which it can if no other has since its last
// try. Who could compacts to the revision that etcd had at its last try: so etcd keeps an interval at
// least, and two if the one that compacts dies.
//
// What kube-apiserver's does not: it compacts no further than the slowest replica that is alive has
// mirrored. It asks replicas that seem to lag first. A replica that lags by more than Hold, or while
// etcd's database has more than 80 % of its quota in use, is not waited for: it misses changes, and
// records the difference to its last state instead. Neither is one that is not registered: what is
// away for longer than an interval has to record such a difference.
//
// Whoever set the key first keeps setting it first. Where that is a kube-apiserver, it compacts
// regardless of replicas: those that lag by more than an interval miss changes. To prevent it, start
// every kube-apiserver with --etcd-compaction-interval=0. etcd's own --auto-compaction-… does not
// wait either. While etcd refuses writes for want of space (NOSPACE) no compactor can set the key: the
// operator compacts then.
type Compactor struct {
	members *Members
	o       CompactorOptions
	noted   atomic.Int64

	// What follows is of the goroutine that compacts.
	version   int64    // of the key, when it was last seen
	value     int64    // of the key in that version
	seen      int64    // the revision of etcd at the last try
	compacted int64    // the revision that it has compacted to itself
	samples   []sample // of the last Hold, and one before
}

// sample is the revision of etcd at some time.
type sample struct {
	at       time.Time
	revision int64
}

// NewCompactor returns a Compactor, which uses the client and the replicas of a Members.
func NewCompactor(m *Members, o CompactorOptions) *Compactor {
	o.Hold = cmp.Or(o.Hold, DefaultHold)
	return &Compactor{members: m, o: o}
}

// Revision returns the revision to which etcd was compacted last, as the compactors have noted it: by
// this one or by another. 0: it is not known.
func (c *Compactor) Revision() int64 { return c.noted.Load() }

// Run compacts until ctx ends, which is no error. It is called once.
func (c *Compactor) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	// They are Run's, and end with ctx.
	group.Go(func() error { c.learn(ctx); return nil })
	if c.o.Interval > 0 {
		group.Go(func() error { c.compact(ctx); return nil })
	}
	return group.Wait()
}

// learn follows the key, for Revision.
func (c *Compactor) learn(ctx context.Context) {
	for {
		now, err := c.members.read(ctx, compactKey)
		if err == nil {
			if len(now.Kvs) > 0 {
				c.noted.Store(number(now.Kvs[0].Value))
			}
			err = c.members.follow(ctx, compactKey, now.Header.Revision, func(event *clientv3.Event) bool {
				c.noted.Store(number(event.Kv.Value))
				return true
			})
		}
		c.members.logger.DebugContext(ctx, "watch of the compacted revision ended", errAttr(err))
		if !c.members.pause(ctx) {
			return
		}
	}
}

// number returns the revision that a value of the key is; 0: it is none, as in kube-apiserver.
func number(value []byte) int64 {
	revision, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

func (c *Compactor) compact(ctx context.Context) {
	for wait(ctx, c.o.Interval) {
		if err := c.try(ctx); err != nil && ctx.Err() == nil {
			c.members.logger.WarnContext(ctx, "compaction of etcd failed", errAttr(err))
		}
	}
}

// try sets the key if it is as the last try has seen it, and compacts.
func (c *Compactor) try(ctx context.Context) error {
	now, err := c.members.read(ctx, compactKey)
	if err != nil {
		return err
	}
	if at, version, _ := state(now); version != c.version || at < c.seen {
		c.see(now) // another one compacts, or etcd was restored from a snapshot
		return nil
	}
	view, err := c.ask(ctx)
	if err != nil {
		return err
	}
	upTo := c.upTo(ctx, view.Replicas)
	set, err := c.set(ctx, upTo)
	if err != nil || !set {
		return err
	}
	if upTo <= c.compacted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compactFor)
	defer cancel()
	switch _, err := c.members.client.Compact(ctx, upTo); {
	case err == nil:
		c.members.logger.InfoContext(ctx, "compacted etcd", slog.Int64("revision", upTo))
	case errors.Is(err, rpctypes.ErrCompacted): // further than this
	default: // the next try includes it
		return fmt.Errorf("compact etcd at revision %d: %w", upTo, err)
	}
	c.compacted = upTo
	return nil
}

// state returns the revision of etcd, and the version and value of the key.
func state(now *clientv3.GetResponse) (revision, version, value int64) {
	if len(now.Kvs) > 0 {
		version, value = now.Kvs[0].Version, number(now.Kvs[0].Value)
	}
	return now.Header.Revision, version, value
}

// see takes the state of the key for the next try.
func (c *Compactor) see(now *clientv3.GetResponse) {
	revision, version, value := state(now)
	if revision < c.seen {
		c.samples, c.compacted = nil, 0
	}
	c.version, c.value = version, value
	c.sample(revision)
}

// sample records the revision of etcd now.
func (c *Compactor) sample(revision int64) {
	c.seen = revision
	c.samples = append(c.samples, sample{time.Now(), revision})
	for len(c.samples) > 1 && time.Since(c.samples[1].at) >= c.o.Hold {
		c.samples = c.samples[1:]
	}
}

// heldFrom returns the revision below which a replica holds compaction no longer.
func (c *Compactor) heldFrom() int64 {
	if len(c.samples) == 0 || time.Since(c.samples[0].at) < c.o.Hold {
		return 0
	}
	return c.samples[0].revision
}

// set sets the key to the revision that is going to be compacted, unless another one has set it.
func (c *Compactor) set(ctx context.Context, upTo int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.members.period())
	defer cancel()
	resp, err := c.members.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(compactKey), "=", c.version)).
		Then(clientv3.OpPut(compactKey, strconv.FormatInt(upTo, 10))).
		Else(clientv3.OpGet(compactKey)).
		Commit()
	switch {
	case err != nil:
		return false, fmt.Errorf("set %s in etcd: %w", compactKey, err)
	case resp.Succeeded:
		c.version, c.value = c.version+1, upTo
		c.sample(resp.Header.Revision)
		return true, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	c.see(&clientv3.GetResponse{Header: resp.Header, Kvs: kvs})
	return false, nil
}

// ask returns the replicas, after it has asked those that seem to lag.
func (c *Compactor) ask(ctx context.Context) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor+c.members.period())
	defer cancel()
	view, err := c.members.List(ctx)
	if err != nil || slowest(view.Replicas, c.seen, 0) == c.seen {
		return view, err
	}
	if _, err := c.members.client.Put(ctx, c.members.askKey(), strconv.FormatInt(c.seen, 10)); err != nil {
		return View{}, fmt.Errorf("ask the replicas how far they are: %w", err)
	}
	for end := time.Now().Add(askFor); time.Now().Before(end) && wait(ctx, askAgain); {
		view, err = c.members.List(ctx)
		if err != nil || slowest(view.Replicas, c.seen, 0) == c.seen {
			break
		}
	}
	return view, err
}

// slowest returns the smallest revision that a replica has reached, at most most; replicas below from
// do not count, nor those that have nothing yet.
func slowest(replicas []Replica, most, from int64) int64 {
	for _, r := range replicas {
		if r.Revision > 0 && r.Revision >= from {
			most = min(most, r.Revision)
		}
	}
	return most
}

// upTo returns how far to compact: to where etcd was at the last try, but no further than the
// replicas that hold compaction have mirrored, and never back.
func (c *Compactor) upTo(ctx context.Context, replicas []Replica) int64 {
	held := slowest(replicas, c.seen, c.heldFrom())
	if held < c.seen && c.members.fullest(ctx) > fullShare {
		held = c.seen
	}
	if lagging := slowest(replicas, c.seen, 0); lagging < held {
		c.members.logger.WarnContext(ctx, "a replica lags too far for compaction to wait: it will miss changes",
			slog.Int64("replica_revision", lagging), slog.Int64("compact_revision", held))
	}
	return min(max(held, c.value), c.seen)
}
