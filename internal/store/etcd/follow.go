package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/store"
)

const (
	// firstRetry and lastRetry bound how long follow waits after a failure.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	// contactTimeout bounds the first reads of a session.
	contactTimeout = 5 * time.Second
	// askEvery is how often etcd is asked how far a watch is while somebody waits for it:
	// apiserver storage/cacher/progress/watch_progress.go progressRequestPeriod.
	askEvery = 100 * time.Millisecond
	// proveEvery is how often etcd is asked that when nothing else shows that the watch is alive.
	proveEvery = time.Second
	// mostResponses is how many responses of a watch are recorded at once.
	mostResponses = 256
	// recordPatience is how long the log may take for what a watch has delivered, before the watch is ended and
	// opened again afterwards: meanwhile clientv3 keeps whatever comes, without a bound.
	recordPatience = 10 * time.Second
	// pageKeys is how many keys of the state are read at once at first, and at least. Later pages have about
	// pageBytes, and at most mostKeys, as kube-apiserver's (apiserver storage/etcd3/store.go maxLimit): for each page
	// etcd visits all keys that follow, to count them.
	pageKeys, mostKeys = 1000, 10_000
	pageBytes          = 8 << 20
)

// follow records what etcd commits, until ctx ends. Errors: *HistoryError, *RefusedError.
func (s *Store) follow(ctx context.Context) error {
	for retry := firstRetry; ; {
		began := time.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // its context has ended
		}
		s.health.failed(err)
		if _, is := errors.AsType[*HistoryError](err); is {
			return err
		}
		if _, is := errors.AsType[*RefusedError](err); is {
			return err
		}
		if _, is := errors.AsType[*store.PoisonedError](err); is {
			<-ctx.Done() // reads go on
			return nil
		}
		if time.Since(began) > lastRetry {
			retry = firstRetry
		}
		s.logger.WarnContext(ctx, "the replica does not follow etcd, and tries again", slog.Any("error", err),
			slog.Int64("retry_ms", retry.Milliseconds()))
		select {
		case <-time.After(retry/2 + rand.N(retry)): // jitter: replicas lose a member together
		case <-ctx.Done():
			return nil
		}
		retry = min(2*retry, lastRetry)
		if errors.Is(err, errSilent) && rand.N(2) == 0 {
			s.skipMember(ctx)
		}
	}
}

// skipMember has the client, which takes one member after the other, begin with the next one: otherwise each session,
// with as many calls as the last, could open its watch at the member that is silent.
func (s *Store) skipMember(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askOther)
	defer cancel()
	_, _ = s.client.Get(ctx, s.prefix, clientv3.WithKeysOnly()) // the session finds out what is wrong
}

// session makes sure that etcd continues what is recorded, reads its state if that is not known, and
// follows its watch until it fails.
func (s *Store) session(ctx context.Context) error {
	compacted, err := s.contact(ctx)
	if err != nil {
		return err
	}
	for {
		at, _ := s.seen()
		if at.rev == 0 || s.isTorn() {
			if err := s.readState(ctx); err != nil {
				return err
			}
			compacted = false
		}
		if !compacted {
			if err := s.watch(ctx); !errors.Is(err, rpctypes.ErrCompacted) {
				return err
			}
		}
		compacted = false
		s.logger.WarnContext(ctx, "etcd has compacted changes that the replica missed: it reads the state",
			slog.Int64("reached", at.rev))
		if err := s.readState(ctx); err != nil {
			return err
		}
	}
}

// contact checks that the cluster is the one whose history the log has, that it has not gone back, and that it has
// what the log has. compacted says that this cannot be known without the whole state, whether or not the watch goes on.
func (s *Store) contact(ctx context.Context) (compacted bool, err error) {
	ctx, cancel := context.WithTimeoutCause(clientv3.WithRequireLeader(ctx), contactTimeout, errContact)
	defer cancel()
	sent := time.Now()
	resp, err := s.ask(ctx)
	if err != nil {
		return false, fmt.Errorf("read etcd's revision: %w", withCause(ctx, err))
	}
	if err := s.checkCluster(ctx, resp.Header.ClusterId); err != nil {
		return false, err
	}
	s.cluster.Store(resp.Header.ClusterId)
	if s.opts.Admit != nil {
		if err := s.opts.Admit(ctx, s.client); err != nil {
			return false, err
		}
	}
	if at := s.recorded(); resp.Header.Revision < at.rev {
		return false, s.wentBack(resp.Header.Revision, at.rev)
	}
	err = s.checkRecorded(ctx)
	if compacted = errors.Is(err, rpctypes.ErrCompacted); err != nil && !compacted {
		return false, err
	}
	s.health.reaches(resp.Header.Revision)
	s.noteRead(sent, resp.Header.Revision)
	s.want(resp.Header.Revision)
	s.prove()
	return compacted, nil
}

var errContact = errors.New("etcd does not answer")

func (s *Store) wentBack(rev, reached int64) error {
	return &HistoryError{Dir: s.opts.Dir, Found: fmt.Sprintf("etcd is at revision %d, and the log has reached %d", rev, reached)}
}

// watch follows etcd's watch after what is recorded. It returns what ended it; rpctypes.ErrCompacted
// if etcd does not have the changes any more.
func (s *Store) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	watcher := clientv3.NewWatcher(s.client)
	defer func() { _ = watcher.Close() }() // its stream ends with it
	at, _ := s.seen()
	opening := time.AfterFunc(staleAfter, func() { cancel(fmt.Errorf("open a watch of etcd: %w", errSilent)) })
	responses := watcher.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(at.rev+1), // waits for its member
		clientv3.WithProgressNotify(), clientv3.WithFragment(), clientv3.WithCreatedNotify())
	opening.Stop()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	proof := time.Now()
	for {
		wanted := s.reads.wanted
		select {
		case first, open := <-responses:
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case !open:
				return fmt.Errorf("watch etcd: %w", errWatchEnded)
			}
			hangs := time.AfterFunc(recordPatience, func() { cancel(errDiskHangs) })
			err := s.take(ctx, first, responses)
			hangs.Stop()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			proof = time.Now()
			s.prove()
			continue
		case <-wanted:
		case <-ask.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		silent := time.Since(proof)
		if silent > staleAfter && len(responses) == 0 { // its member hangs, or clientv3 does not resume it
			return fmt.Errorf("watch etcd: %w", errSilent)
		}
		if at, _ := s.seen(); s.isWanted(at.rev) || silent >= proveEvery {
			if err := askProgress(ctx, watcher); err != nil {
				return err
			}
		}
	}
}

// askProgress asks how far a watch is. While its connection is made again, it gives up after a while.
func askProgress(ctx context.Context, watcher clientv3.Watcher) error {
	asking, cancel := context.WithTimeout(ctx, proveEvery)
	defer cancel()
	if err := watcher.RequestProgress(asking); err != nil && asking.Err() == nil {
		return fmt.Errorf("ask etcd for the watch's progress: %w", err)
	}
	return nil
}

var (
	errWatchEnded = errors.New("etcd ended the watch")
	errSilent     = errors.New("it does not answer")
	errDiskHangs  = fmt.Errorf("the replica's disk has not taken what etcd has committed within %v", recordPatience)
)

// isWanted reports whether somebody waits for a revision after rev.
func (s *Store) isWanted(rev int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.wanted > rev
}

// take records a response of the watch, and those that have arrived after it.
func (s *Store) take(ctx context.Context, first clientv3.WatchResponse, more clientv3.WatchChan) error {
	at, _ := s.seen()
	through := at.rev
	var events []event
	var failed error
	for r, n := first, 1; ; n++ {
		if err := s.checkAnswer(r.Header); err != nil {
			return err
		}
		if failed = r.Err(); failed != nil {
			failed = fmt.Errorf("watch etcd: %w", failed)
			break
		}
		var err error
		if events, through, err = s.translate(events, through, r); err != nil {
			return err
		}
		if n == mostResponses {
			break
		}
		var open bool
		if r, open = soon(more); !open {
			break // nothing more for now, or the next receive says that it is closed
		}
	}
	if through > at.rev {
		end, err := s.begin(ctx)
		if err != nil {
			return err
		}
		defer end()
		if err := s.record(context.WithoutCancel(ctx), events, through); err != nil {
			return err
		}
	}
	return failed
}

// translate adds the events of a response, and returns up to where the watch has come.
func (s *Store) translate(events []event, through int64, r clientv3.WatchResponse) ([]event, int64, error) {
	if r.IsProgressNotify() {
		return events, max(through, r.Header.Revision), nil
	}
	before := through // a response has whole revisions
	for _, e := range r.Events {
		if e.Kv.ModRevision <= before {
			return nil, 0, fmt.Errorf("the watch delivers revision %d after %d: %w", e.Kv.ModRevision, before, errWatchOrder)
		}
		through = max(through, e.Kv.ModRevision)
		key, known := s.opts.Layout.StoreKey(string(e.Kv.Key))
		if !known {
			continue
		}
		out := event{key: key, mod: e.Kv.ModRevision, create: e.Kv.CreateRevision, deleted: e.Type == clientv3.EventTypeDelete}
		if !out.deleted {
			out.value = e.Kv.Value
		}
		events = append(events, out)
	}
	return events, through, nil
}

var errWatchOrder = errors.New("it is not in order")

// readState reads the whole state at one revision and records how it differs from what is recorded. If only
// resources are missing, it is that of the same revision, as long as etcd has it: the watch has what came later. It
// reads nothing while the log would not take it: a full disk lasts, and all replicas of a cluster may have one.
func (s *Store) readState(ctx context.Context) error {
	if err := s.log.Writable(); err != nil {
		return fmt.Errorf("read the state of etcd, which could not be recorded: %w", err)
	}
	at := s.recorded()
	var wanted int64
	if s.isHidden() && !s.isTorn() {
		wanted = at.rev
	}
	kvs, rev, err := s.fetchState(ctx, wanted)
	if wanted > 0 && errors.Is(err, rpctypes.ErrCompacted) {
		kvs, rev, err = s.fetchState(ctx, 0)
	}
	if err != nil {
		return fmt.Errorf("read the state of etcd: %w", err)
	}
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if rev < at.rev {
		return s.wentBack(rev, at.rev)
	}
	d, err := s.compare(ctx, kvs, at.rev, rev)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.replace(context.WithoutCancel(ctx), d); err != nil {
		return err
	}
	s.keeps(rev)
	s.logger.InfoContext(ctx, "the state of etcd was read", slog.Int64("after", d.from), slog.Int64("revision", rev),
		slog.Int("deleted", len(d.deleted)), slog.Int("changed", len(d.changed)),
		slog.Int64("recorded_in_ms", time.Since(began).Milliseconds()))
	return nil
}

// fetchState reads all keys page by page at a revision; 0: that of the first page.
func (s *Store) fetchState(ctx context.Context, at int64) (state map[string]*mvccpb.KeyValue, rev int64, err error) {
	ctx = clientv3.WithRequireLeader(ctx)
	state, rev = map[string]*mvccpb.KeyValue{}, at
	from, end := s.prefix, clientv3.GetPrefixRangeEnd(s.prefix)
	for limit := pageKeys; ; {
		pageCtx, cancel := context.WithTimeoutCause(ctx, 6*contactTimeout, errContact)
		resp, err := s.client.Get(pageCtx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)), clientv3.WithRev(rev))
		err = withCause(pageCtx, err)
		cancel()
		if err == nil {
			err = s.checkAnswer(resp.Header)
		}
		if err != nil {
			return nil, 0, err
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		size := 1
		for _, kv := range resp.Kvs {
			size += len(kv.Value)
			if key, known := s.opts.Layout.StoreKey(string(kv.Key)); known {
				state[key] = kv
			}
		}
		limit = min(max(len(resp.Kvs)*pageBytes/size, pageKeys), 2*limit, mostKeys)
		if !resp.More {
			return state, rev, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// compare returns how a state differs from what is recorded. It reads all values: an older snapshot that was restored,
// and written to since, can have other ones at the same revisions.
func (s *Store) compare(ctx context.Context, state map[string]*mvccpb.KeyValue, from, to int64) (difference, error) {
	d := difference{from: min(from, to-1), to: to} // at to itself, if only resources were missing
	q := store.Query{
		End: own + "/", Limit: 10 * pageKeys, Want: func(key string, _ int64) bool { return state[key] != nil },
	}
	same := map[string]bool{}
	for {
		page, err := s.log.Read(ctx, q)
		if err != nil {
			return d, fmt.Errorf("compare the state of etcd with the log: %w", err)
		}
		for _, r := range page.Records {
			kv := state[r.Key]
			if kv == nil {
				d.deleted = append(d.deleted, r.Key)
				continue
			}
			o, err := decodeObject(r.Value)
			switch {
			case err != nil:
				return d, fmt.Errorf("%q at position %d: %w", r.Key, r.ModRevision, err)
			case o.is(kv):
				same[r.Key] = true
			case kv.ModRevision == o.mod && !s.isNew(store.ResourceOf(r.Key)):
				return d, s.differs(r.Key, o.mod)
			case kv.CreateRevision > o.mod: // it was created again
				d.deleted = append(d.deleted, r.Key)
			}
		}
		if !page.More {
			break
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
	for key, kv := range state {
		if same[key] {
			continue
		}
		if kv.ModRevision <= from && !s.isTorn() && !s.isNew(store.ResourceOf(key)) {
			return d, &HistoryError{Dir: s.opts.Dir, Found: fmt.Sprintf(
				"%q was written at revision %d in etcd, but not in the log, which has reached %d", key, kv.ModRevision, from)}
		}
		d.changed = append(d.changed, event{key: key, mod: kv.ModRevision, create: kv.CreateRevision, value: kv.Value})
	}
	return d, nil
}

func (s *Store) isTorn() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.torn != nil
}

// revision returns etcd's revision of a position.
func (s *Store) revision(pos int64) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.positions.revision(pos)
}
