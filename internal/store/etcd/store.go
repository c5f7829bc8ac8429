package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Store is a store.Store over an etcd cluster: one replica of it. Its revisions are etcd's mod
// revisions. Open makes it readable as far as its log goes; while Run is running, it follows etcd and
// takes writes. Before the first state of an empty log was read, calls wait for it.
type Store struct {
	opts   Options
	prefix string // of all keys in etcd, with a slash at its end
	logger *slog.Logger
	client *clientv3.Client
	log    *revlog.Log
	leases *leases

	// turn holds one token: its sender may write to the log, and guards what follows.
	turn   chan struct{}
	noted  int64     // the progress that the log has
	last   lastKnown // the last change that is recorded
	anchor store.Changes
	saved  moment // where the anchor is: up to here the checkpoint knows the positions
	number int64  // of the last checkpoint
	since  int64  // bytes that were recorded after it

	reads *reads // what waits for linearizable reads

	// mu guards what follows. Nothing blocks while it is held.
	mu        sync.RWMutex
	positions positions
	visible   moment        // what readers see; 0: there is no state yet
	hidden    moment        // what the log has while nobody sees it, because it has not all resources; 0: nothing is hidden
	known     resources     // that the log has; written with the turn, too
	torn      *hole         // a replacement that was cut off
	compacted int64         // the revision up to which history is compacted
	wanted    int64         // the revision that somebody waits for
	moved     chan struct{} // closed and replaced when visible or compacted moves

	health  health
	synced  atomic.Int64  // the revision up to which the replica has every change on disk
	cluster atomic.Uint64 // the id of the cluster whose history the log has; 0: not known yet

	failing  chan error // holds one: a call has found out that etcd's history went back
	started  atomic.Bool
	closing  chan struct{} // closed by Close
	ended    chan struct{} // closed when Run has returned
	closeOne sync.Once
	closeErr error
}

var _ store.Store = (*Store)(nil)

// lastKnown is the last change that the log has of etcd's watch.
type lastKnown struct {
	key     string
	rev     int64
	deleted bool
}

// Open opens the replica's log, or creates it. It does not wait for etcd. Errors: those of
// revlog.Open. The caller closes the Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	log, err := revlog.Open(ctx, revlog.Options{
		Dir: o.Dir, Memory: o.Memory, History: o.History, HistoryBytes: o.HistoryBytes, Logger: o.Logger, Apart: own,
		FS: o.FS, SegmentBytes: o.SegmentBytes, GroupWrites: o.GroupWrites,
		Early: true, // what a failure of the machine takes away is read from etcd again
	})
	if damage, is := errors.AsType[*store.CorruptError](err); is {
		damage.Advice = "nothing was changed; move " + o.Dir + " away: the replica reads the state from etcd then, and clients " +
			"from before list again"
	}
	if err != nil {
		return nil, fmt.Errorf("open the replica's log: %w", err)
	}
	s := &Store{
		opts: o, prefix: withSlash(o.Prefix), logger: o.Logger, log: log, turn: make(chan struct{}, 1), reads: newReads(),
		moved: make(chan struct{}), failing: make(chan error, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read the replica's log: %w", err), s.release(), log.Close())
	}
	if s.client, err = Dial(context.WithoutCancel(ctx), o.Cluster); err != nil {
		return nil, errors.Join(fmt.Errorf("make a client of etcd: %w", err), s.release(), log.Close())
	}
	if err := s.loadCluster(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read the replica's log: %w", err), s.release(), log.Close(), s.client.Close())
	}
	s.leases = newLeases(s.client)
	s.synced.Store(s.visible.rev) // Open of the log has made it durable
	s.health.begin()
	return s, nil
}

func withSlash(prefix string) string {
	if prefix == "" || prefix[len(prefix)-1] != '/' {
		prefix += "/"
	}
	return prefix
}

// Client is the store's client of etcd. Close closes it.
func (s *Store) Client() *clientv3.Client { return s.client }

// Run follows etcd until ctx ends or Close is called. It is called once. It returns nil,
// *HistoryError if etcd does not continue what the replica has, the *RefusedError of Options.Admit, or
// the *store.PoisonedError of a disk that failed.
func (s *Store) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		select {
		case <-s.closing:
			return nil // Close came first
		default:
		}
		return fmt.Errorf("run the store a second time: %w", store.ErrInvalid)
	}
	defer close(s.ended)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(ctx))
	logged := make(chan error, 1)
	go func() { logged <- s.log.Run(logCtx) }() // Run waits for it below

	var wg sync.WaitGroup
	// Run owns them; they end with ctx.
	wg.Go(func() { s.readEtcd(ctx) })
	wg.Go(func() { s.tend(ctx) })
	wg.Go(func() {
		select {
		case <-s.closing:
			cancel(store.ErrClosed)
		case err := <-s.failing:
			cancel(err)
		case <-ctx.Done():
		}
	})
	err := s.follow(ctx)
	if failed, is := errors.AsType[*HistoryError](context.Cause(ctx)); is && err == nil {
		err = failed
	}
	if failed, is := errors.AsType[*HistoryError](err); is && failed.OtherCluster {
		named := *failed // others may read it
		named.Clusters = s.clustersOfServers(logCtx)
		err = &named
	}
	cancel(err)
	wg.Wait()
	s.saveAll(logCtx)
	stopLog()
	return errors.Join(err, <-logged)
}

// saveAll records at the end of Run what makes the next start short.
func (s *Store) saveAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastSave)
	defer cancel()
	if err := s.note(ctx); err != nil {
		s.logger.InfoContext(ctx, "the replica's progress was not recorded at the end", slog.Any("error", err))
		return
	}
	if err := s.save(ctx); err != nil {
		s.logger.InfoContext(ctx, "the replica's positions were not recorded at the end", slog.Any("error", err))
	}
}

// lastSave bounds what is recorded at the end of Run; the next start only takes longer without it.
const lastSave = 5 * time.Second

// Close ends Run, waits for it, and closes the log and the client. Every later call is store.ErrClosed.
func (s *Store) Close() error {
	s.closeOne.Do(func() {
		close(s.closing)
		if s.started.CompareAndSwap(false, true) {
			close(s.ended)
		}
		<-s.ended
		s.closeErr = errors.Join(s.release(), s.log.Close(), s.closeClient())
	})
	return s.closeErr
}

func (s *Store) closeClient() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the client of etcd: %w", err)
	}
	return nil
}

// release ends the hold on the log's history.
func (s *Store) release() error {
	if s.anchor == nil {
		return nil
	}
	return s.anchor.Close()
}

// Stats describe a Store at one moment.
type Stats struct {
	revlog.Stats              // of the log: its revisions are positions, not etcd's revisions
	Reached      int64        // etcd's revision up to which every change is recorded; 0: no state was read yet
	Compacted    int64        // etcd's revision up to which the replica's history is compacted
	Holes        []store.Hole // in the history, also the one before the first state
	Runs         int          // how many runs of positions there are: 24 bytes each
	Reads        int64        // how often etcd's revision was read for those who wait for it
}

// Stats returns the present figures.
func (s *Store) Stats() Stats {
	stats := Stats{Stats: s.log.Stats(), Reads: s.reads.sent.Load()}
	stats.Keys -= stats.ResourceKeys[own]
	delete(stats.ResourceKeys, own)
	s.mu.RLock()
	defer s.mu.RUnlock()
	delete(stats.Floors, own)
	for name, floor := range stats.Floors {
		floor.Revision = s.positions.revision(floor.Revision)
		stats.Floors[name] = floor
	}
	for name, has := range s.known {
		if has.Since > stats.Floors[name].Revision {
			stats.Floors[name] = revlog.Floor{Revision: has.Since, Reason: store.ReasonUnseen}
		}
	}
	stats.Reached, stats.Compacted = s.visible.rev, s.compacted
	stats.Holes, stats.Runs = s.positions.over(0, s.visible.rev), len(s.positions.runs)
	return stats
}

// fail ends Run.
func (s *Store) fail(err error) {
	select {
	case s.failing <- err:
	default: // it ends already
	}
}

// begin takes the turn to write to the log. The caller calls the function that it returns.
func (s *Store) begin(ctx context.Context) (end func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// seen returns what readers see, and what is closed when that moves.
func (s *Store) seen() (moment, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.visible, s.moved
}

// wait waits until every change up to a revision is recorded, and returns what is seen then.
func (s *Store) wait(ctx context.Context, rev int64) (moment, error) {
	for {
		if ctx.Err() != nil {
			return moment{}, context.Cause(ctx)
		}
		at, moved := s.seen()
		select {
		case <-s.closing:
			return moment{}, store.ErrClosed
		default:
		}
		if at.rev >= rev {
			return at, nil
		}
		select {
		case <-moved:
		case <-s.closing:
		case <-ctx.Done():
		}
	}
}

// show moves what readers see.
func (s *Store) show(at moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := moment{pos: max(s.visible.pos, at.pos), rev: max(s.visible.rev, at.rev)}
	if next != s.visible {
		s.visible = next
		s.wakeLocked()
	}
}

func (s *Store) wakeLocked() {
	close(s.moved)
	s.moved = make(chan struct{})
}
