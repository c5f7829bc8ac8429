package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// feed is a stream of changes, read from the log stretch by stretch: each is up to what readers see
// when it begins. It waits for nothing in the log, so that it also moves when etcd's revision does and
// nothing is written.
type feed struct {
	store *Store
	from  store.From
	done  chan struct{} // closed by Close
	once  sync.Once

	pos       int64         // every change up to here was delivered
	through   int64         // the same as a revision
	compacted int64         // what was delivered, with From.Hold
	stretch   store.Changes // of the log; nil: none
	end       moment        // where the stretch ends

	// mu guards hold, which Close and Next use.
	mu   sync.Mutex
	hold store.Changes // of the log, with From.Hold
}

// Changes implements store.Store.
func (s *Store) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	check := f
	if f.Match != nil || f.Known != nil || f.Want != nil {
		check.Match, check.Known, check.Want = nil, nil, nil
	}
	if f.After < 0 || f.UpTo < 0 { // the log refuses it
		return s.log.Changes(ctx, check)
	}
	at, err := s.wait(ctx, 1)
	if err != nil {
		return nil, err
	}
	pos := at.pos // of a revision that is ahead
	if f.After < at.rev {
		if pos, err = s.position(f.After, f); err != nil {
			return nil, err
		}
	}
	check.After, check.UpTo, check.Hold = pos, max(pos, 1), false
	if _, err := s.log.Changes(ctx, check); err != nil {
		return nil, s.expired(err, f.After)
	}
	if f.UpTo != 0 && f.UpTo <= f.After {
		return &store.NoChanges{}, nil
	}
	k := &feed{store: s, from: f, done: make(chan struct{}), pos: pos, through: f.After}
	if f.Hold {
		if k.hold, err = s.log.Changes(ctx, k.holding()); err != nil {
			return nil, s.expired(err, f.After)
		}
	}
	return k, nil
}

// holding is what protects the changes after the feed's position from compaction.
func (k *feed) holding() store.From {
	return store.From{Prefix: k.from.Prefix, Key: k.from.Key, After: k.pos, Hold: true}
}

// Next implements store.Changes.
func (k *feed) Next(ctx context.Context) (store.Batch, error) {
	for {
		if ctx.Err() != nil {
			return store.Batch{}, context.Cause(ctx)
		}
		select {
		case <-k.done:
			return store.Batch{}, store.ErrClosed
		case <-k.store.closing:
			return store.Batch{}, store.ErrClosed
		default:
		}
		if k.from.UpTo != 0 && k.through >= k.from.UpTo {
			return store.Batch{}, io.EOF
		}
		at, compacted, moved := k.store.seenByFeeds()
		if k.stretch != nil || at.pos > k.pos || at.rev > k.through {
			b, err := k.advance(ctx, at)
			if err != nil {
				return store.Batch{}, err
			}
			if b.Through > k.through {
				return k.deliver(ctx, b, compacted)
			}
			if len(b.Changes) > 0 {
				return store.Batch{}, fmt.Errorf("%d changes up to revision %d, of which it had delivered all: %w",
					len(b.Changes), k.through, errRecord)
			}
			continue
		}
		if k.from.Hold && compacted > k.compacted {
			return k.deliver(ctx, store.Batch{Through: k.through}, compacted)
		}
		select {
		case <-moved:
		case <-k.done:
		case <-k.store.closing:
		case <-ctx.Done():
		}
	}
}

// seenByFeeds returns what readers see, up to where history is compacted, and what is closed when
// that moves.
func (s *Store) seenByFeeds() (at moment, compacted int64, moved <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.visible, s.compacted, s.moved
}

// deliver moves the feed past a batch.
func (k *feed) deliver(ctx context.Context, b store.Batch, compacted int64) (store.Batch, error) {
	k.store.mu.RLock()
	b.Holes = k.store.positions.over(k.through, b.Through)
	k.store.mu.RUnlock()
	k.through = b.Through
	if !k.from.Hold {
		return b, nil
	}
	k.compacted, b.Compacted = compacted, min(compacted, b.Through)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil {
		return store.Batch{}, store.ErrClosed
	}
	// Who ends ctx may call Next again, and has not got what was read by then.
	next, err := k.store.log.Changes(context.WithoutCancel(ctx), k.holding())
	if err != nil {
		return store.Batch{}, k.store.expired(err, b.Through)
	}
	last := k.hold
	k.hold = next
	return b, last.Close()
}

// advance reads a batch up to what readers see, whose Through is not higher than before if there is
// none.
func (k *feed) advance(ctx context.Context, at moment) (store.Batch, error) {
	if k.stretch == nil {
		if k.from.UpTo != 0 && k.from.UpTo < at.rev {
			at = moment{pos: min(k.store.at(k.from.UpTo), at.pos), rev: k.from.UpTo}
		}
		if at.pos <= k.pos {
			return store.Batch{Through: at.rev}, nil
		}
		if err := k.begin(ctx, at); err != nil {
			return store.Batch{}, err
		}
	}
	b, pos, err := k.gather(ctx)
	if err != nil {
		k.stretch = nil // what it has given is read again: the caller may go on
		return store.Batch{}, err
	}
	k.pos = pos
	return b, nil
}

// gather reads from the stretch until it has whole revisions, and returns the position where they end.
func (k *feed) gather(ctx context.Context) (b store.Batch, pos int64, err error) {
	for more := true; more; {
		read, err := k.stretch.Next(ctx)
		if errors.Is(err, io.EOF) {
			k.stretch, b.Through = nil, max(b.Through, k.end.rev)
			return b, k.end.pos, nil
		}
		if err != nil {
			return b, 0, k.store.expired(err, k.through)
		}
		if err := k.append(ctx, &b, read.Changes); err != nil {
			return b, 0, err
		}
		pos = read.Through
		b.Through, more = k.store.throughOf(pos, k.end, b.Changes)
	}
	return b, pos, nil
}

// begin opens the stretch of the log up to what readers see.
func (k *feed) begin(ctx context.Context, at moment) error {
	below := k.from
	below.After, below.UpTo, below.Hold = k.pos, at.pos, false
	if match := k.from.Match; match != nil {
		below.Match = func(key string) bool { return !strings.HasPrefix(key, own+"/") && match(key) }
	}
	if known := k.from.Known; known != nil {
		below.Known = func(key string, pos int64) (int, bool) { return known(key, k.store.revision(pos)) }
	}
	if want := k.from.Want; want != nil {
		below.Want = func(c store.Change) (value, previous bool) {
			k.store.revisions(&c)
			return want(c)
		}
	}
	var err error
	k.stretch, err = k.store.log.Changes(ctx, below)
	k.end = at
	return k.store.expired(err, k.through)
}

// append adds changes of the log to a batch.
func (k *feed) append(ctx context.Context, b *store.Batch, changes []store.Change) error {
	for _, c := range changes {
		k.store.revisions(&c)
		if c.Revision <= k.from.After { // of a stream that began in the future
			continue
		}
		if c.Value != nil {
			r := store.Record{Key: c.Key, Value: c.Value}
			if err := k.reveal(ctx, &r); err != nil {
				return err
			}
			c.Value, c.Unreadable = r.Value, r.Unreadable
		}
		if c.Previous != nil && c.Previous.Value != nil {
			if err := k.reveal(ctx, c.Previous); err != nil {
				return err
			}
		}
		b.Changes = append(b.Changes, c)
	}
	return nil
}

// revealAgain is how often it is tried to decode a value that cannot be decrypted for now.
const revealAgain = time.Second

// reveal is that of the store, without an error for what cannot be read where the stream has that too. With
// From.Hold alone it waits while a key management service does not answer: such a reader cannot begin again.
func (k *feed) reveal(ctx context.Context, r *store.Record) error {
	for {
		stored := *r
		err := k.store.reveal(r, nil)
		if r.Unreadable == nil {
			return err
		}
		if k.from.Unreadable {
			return nil
		}
		if !k.from.Hold {
			return k.store.superseded(ctx, err, k.through)
		}
		if !r.Unreadable.Temporary {
			return err
		}
		*r = stored
		k.store.logger.WarnContext(ctx, "changes wait for a key management service", slog.Any("error", err))
		select {
		case <-time.After(revealAgain):
		case <-k.done:
			return store.ErrClosed
		case <-k.store.closing:
			return store.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// revisions gives a change of the log etcd's revisions, in place; not its values.
func (s *Store) revisions(c *store.Change) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.Shared = c.Deleted && s.positions.shared(c.Revision)
	c.Revision = s.positions.revision(c.Revision)
	if c.Previous != nil {
		previous := *c.Previous
		previous.ModRevision = s.positions.revision(previous.ModRevision)
		previous.CreateRevision = s.positions.revision(previous.CreateRevision)
		c.Previous = &previous
	}
}

// throughOf returns up to which revision a batch of some changes goes that ends at a position, and
// whether more has to be in it: the rest of a revision, or a change, if it would end inside a hole.
func (s *Store) throughOf(pos int64, end moment, changes []store.Change) (rev int64, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if pos >= end.pos {
		return end.rev, false
	}
	rev = s.positions.before(pos)
	if _, inside := s.positions.hole(rev); !inside {
		return rev, s.positions.splits(pos)
	}
	if len(changes) == 0 {
		return rev, true
	}
	return changes[len(changes)-1].Revision, s.positions.splits(pos)
}

// at returns the last position with a revision at or below rev.
func (s *Store) at(rev int64) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.positions.at(rev)
}

// Close implements store.Changes.
func (k *feed) Close() error {
	var err error
	k.once.Do(func() {
		close(k.done)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.hold != nil {
			err = k.hold.Close()
			k.hold = nil
		}
	})
	return err
}
