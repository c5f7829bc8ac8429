package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

const (
	// tendEvery is how often the progress is recorded, and it is looked whether more is to be done.
	tendEvery = 10 * time.Second
	// saveEvery and saveBytes are after what time, and how much, a checkpoint is written: a start reads
	// what came after it. The log compacts nothing after it.
	saveEvery = 10 * time.Minute
	saveBytes = 64 << 20
)

// tend records progress and checkpoints until ctx ends.
func (s *Store) tend(ctx context.Context) {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	saved := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		_, err := s.Keep(ctx)
		if err == nil && (time.Since(saved) >= saveEvery || s.isMuch(ctx)) {
			saved = time.Now()
			err = s.save(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "the replica's progress was not recorded, and is later", slog.Any("error", err))
		}
		s.noteCompaction()
	}
}

// isMuch reports whether so much was recorded since the checkpoint that another one is due.
func (s *Store) isMuch(ctx context.Context) bool {
	end, err := s.begin(ctx)
	if err != nil {
		return false
	}
	defer end()
	most := int64(saveBytes)
	if s.opts.HistoryBytes > 0 {
		most = min(most, s.opts.HistoryBytes/4)
	}
	return s.since >= most
}

// noteCompaction takes into account what the log has compacted by itself.
func (s *Store) noteCompaction() {
	compacted := s.log.Stats().Compacted
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compactedLocked(s.compactedAt(compacted))
}

func (s *Store) compactedLocked(rev int64) {
	if rev > s.compacted {
		s.compacted = rev
		s.wakeLocked()
	}
}

// compactedAt returns the revision up to which history is compacted if it is up to a position. mu is held,
// or nobody else has the Store yet.
func (s *Store) compactedAt(pos int64) int64 {
	switch {
	case pos == 0:
		return 0
	case pos >= s.visible.pos:
		return s.visible.rev
	}
	return s.positions.before(pos)
}

// Keep makes durable what readers see, and returns its revision: after a failure of the machine, the replica goes on
// from there, or from later. It waits for the replica's disk.
func (s *Store) Keep(ctx context.Context) (int64, error) {
	at, _ := s.seen()
	if err := s.note(ctx); err != nil {
		return 0, err
	}
	if err := s.log.Sync(ctx); err != nil {
		return 0, fmt.Errorf("make the replica's progress durable: %w", err)
	}
	s.keeps(at.rev)
	return s.Kept(), nil
}

// Kept returns up to which revision the replica has every change on disk: as of the last Keep, which the store
// calls from time to time itself; 0: it has nothing yet.
func (s *Store) Kept() int64 { return s.synced.Load() }

// keeps notes that a revision is on disk.
func (s *Store) keeps(rev int64) {
	for {
		kept := s.synced.Load()
		if rev <= kept || s.synced.CompareAndSwap(kept, rev) {
			return
		}
	}
}

// note records how far the replica has come, if the log does not know.
func (s *Store) note(ctx context.Context) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	at, _ := s.seen()
	if s.isTorn() || at.rev <= max(s.noted, s.last.rev) {
		return nil
	}
	if err := s.writeOwn(ctx, progressKey, encodeRevision(at.rev)); err != nil {
		return err
	}
	s.noted = at.rev
	return nil
}

// writeOwn records something of the replica's own. The caller has the turn.
func (s *Store) writeOwn(ctx context.Context, key string, value []byte) error {
	if _, err := s.log.Append(ctx, []revlog.Write{{Key: key, Value: value}}); err != nil {
		return fmt.Errorf("record %q: %w", key, err)
	}
	return nil
}

func runsKey(number, i int64) string {
	return runsPrefix + strconv.FormatInt(number, 10) + "/" + strconv.FormatInt(i, 10)
}

// save writes a checkpoint at what readers see: a start needs to read only what came later, and the
// log may compact what came before.
func (s *Store) save(ctx context.Context) error {
	end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.saveNow(ctx)
}

// saveNow is save; the caller has the turn.
func (s *Store) saveNow(ctx context.Context) error {
	at, _ := s.seen()
	if s.isTorn() || at == s.saved || at.rev == 0 {
		return nil
	}
	if err := s.trim(ctx); err != nil {
		return err
	}
	c := checkpoint{number: s.number + 1, at: at, last: s.last}
	s.mu.RLock()
	c.holes = slices.Clone(s.positions.holes)
	runs := slices.Clone(s.positions.runs)
	s.mu.RUnlock()
	for some := range slices.Chunk(runs, runsPerRecord) {
		if err := s.writeOwn(ctx, runsKey(c.number, c.records), encodeRuns(some)); err != nil {
			return err
		}
		c.records++
	}
	if err := s.writeOwn(ctx, checkpointKey, c.encode()); err != nil {
		return err
	}
	s.number = c.number
	if err := s.log.Sync(ctx); err != nil { // what comes before the last checkpoint may be compacted from now on
		return fmt.Errorf("make the checkpoint durable: %w", err)
	}
	next, err := s.log.Changes(ctx, store.From{After: at.pos, Hold: true})
	if err != nil {
		return fmt.Errorf("hold the history after the checkpoint: %w", err)
	}
	err = s.anchor.Close()
	s.anchor, s.saved, s.since = next, at, 0
	return errors.Join(err, s.discardRuns(ctx, c.number))
}

// discardRuns deletes the runs of other checkpoints.
func (s *Store) discardRuns(ctx context.Context, number int64) error {
	page, err := s.log.Read(ctx, store.Query{
		Start: runsPrefix, End: store.PrefixEnd(runsPrefix), Want: func(string, int64) bool { return false },
	})
	if err != nil {
		return err
	}
	var writes []revlog.Write
	for _, r := range page.Records {
		if !strings.HasPrefix(r.Key, runsPrefix+strconv.FormatInt(number, 10)+"/") {
			writes = append(writes, revlog.Write{Key: r.Key, Delete: true})
		}
	}
	_, err = s.log.Append(ctx, writes)
	return err
}

// trim forgets positions that nobody can ask for. Those up to the compaction of the log are kept where
// a version is that is kept, or a floor: for them the revisions of resources that do not change stay
// readable. The caller has the turn.
func (s *Store) trim(ctx context.Context) error {
	for compacted := int64(0); ; {
		stats := s.log.Stats()
		if stats.Compacted == compacted {
			return nil
		}
		compacted = stats.Compacted
		kept, err := s.kept(ctx, compacted)
		if _, is := errors.AsType[*store.CompactedError](err); is {
			continue // more was compacted meanwhile
		}
		if err != nil {
			return fmt.Errorf("read which positions are kept: %w", err)
		}
		for _, floor := range stats.Floors {
			kept = append(kept, floor.Revision)
		}
		slices.Sort(kept)
		s.mu.Lock()
		s.positions.trim(compacted, slices.Compact(kept))
		s.mu.Unlock()
		return nil
	}
}

// kept returns the positions of the versions that there are at a position.
func (s *Store) kept(ctx context.Context, at int64) ([]int64, error) {
	kept := []int64{at}
	q := store.Query{
		End: own + "/", AtRevision: at, Limit: 10 * pageKeys, Want: func(string, int64) bool { return false },
	}
	for {
		page, err := s.log.Read(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			kept = append(kept, r.ModRevision, r.CreateRevision)
		}
		if !page.More {
			return kept, nil
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
}

// Compact implements store.Store for the history of the replica's log. It does not compact etcd, which
// is the business of one replica, or of kube-apiserver.
func (s *Store) Compact(ctx context.Context, c store.Compaction) (int64, error) {
	at, err := s.wait(ctx, 0)
	if err != nil {
		return 0, err
	}
	below := c
	if c.UpTo > 0 {
		if c.UpTo > at.rev {
			return 0, &store.FutureRevisionError{Requested: c.UpTo, Current: at.rev}
		}
		s.mu.RLock()
		below.UpTo = max(1, min(s.positions.at(c.UpTo), at.pos))
		s.mu.RUnlock()
	}
	if (c.UpTo > 0) != (c.OlderThan > 0) && c.UpTo >= 0 && c.OlderThan >= 0 {
		if err := s.save(ctx); err != nil {
			return 0, fmt.Errorf("record the positions before a compaction: %w", err)
		}
	}
	done, err := s.log.Compact(ctx, below)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rev := s.compactedAt(done)
	if c.UpTo > 0 && done == below.UpTo {
		rev = max(c.UpTo, s.compacted)
	}
	s.compactedLocked(rev)
	return s.compacted, nil
}
