package mirror

import (
	"context"
	"crypto/cipher"
	"fmt"
	"sync"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Collection is one collection of the other server. Append, Replace and Progress are called by
// one goroutine at a time; everything else is safe for concurrent use.
type Collection struct {
	log    *revlog.Log
	name   string
	epoch  uint64
	before kube.ResourceVersion // up to here there was a former history
	key    string               // the first part of the keys of its objects
	seal   cipher.AEAD          // nil: objects are not encrypted

	// turn holds one token: its sender may write to the log, and guards ended and noted.
	turn  chan struct{}
	ended bool                 // Release or Rewrite was called: others may write
	noted kube.ResourceVersion // the progress that the log has

	// mu guards what follows.
	mu        sync.Mutex
	positions positions
	// deleting has the deletions of the Append that is in progress, by key: readers of the
	// log may see them before their positions are known.
	deleting map[string]kube.ResourceVersion
}

func newCollection(log *revlog.Log, name string, epoch uint64, before kube.ResourceVersion) *Collection {
	return &Collection{log: log, name: name, epoch: epoch, before: before, key: keyOf(name, epoch), turn: make(chan struct{}, 1)}
}

// Key is the first part of the keys of the collection's objects in the log.
func (c *Collection) Key() string { return c.key }

// Epoch is the number of the collection's history; each Rewrite begins another one.
func (c *Collection) Epoch() uint64 { return c.epoch }

func (c *Collection) keyOf(key wire.Key) string { return c.key + "/" + key.String() }

// begin takes the turn to write. The caller calls release.
func (c *Collection) begin(ctx context.Context) (release func(), err error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.ended {
		<-c.turn
		return nil, fmt.Errorf("write to %s: %w", c.name, ErrReleased)
	}
	return func() { <-c.turn }, nil
}

// end refuses every later write, after the one that is in progress.
func (c *Collection) end() {
	c.turn <- struct{}{}
	c.ended = true
	<-c.turn
}

// Progress says that the collection had no change up to rv since the last one that was
// recorded. It does not block; the log learns of it later. It has no effect before the first
// Replace or Append, and while the collection is Torn.
func (c *Collection) Progress(rv kube.ResourceVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.positions.through > 0 && !c.positions.torn {
		c.positions.progress(rv)
	}
}

// Reached is the resourceVersion up to which every change is recorded; 0 before the first
// Replace.
func (c *Collection) Reached() kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.through
}

// Torn reports that a Replace was cut off, by a crash or an error: the recorded state is none
// that the other server had, and has to be replaced.
func (c *Collection) Torn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.torn
}

// Wait blocks until everything up to rv is recorded, or returns ctx's cause.
func (c *Collection) Wait(ctx context.Context, rv kube.ResourceVersion) error {
	for {
		c.mu.Lock()
		reached, moved := c.positions.through >= rv, c.positions.wait()
		c.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Position returns the position at which the state is that of the other server at rv. Errors:
// *kube.ExpiredError of the given kind if there is none, because rv is in a hole, older than what
// is recorded, or of a former history; *kube.TooLargeResourceVersionError if rv is ahead.
func (c *Collection) Position(rv kube.ResourceVersion, kind kube.ExpiredKind) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.positions
	if rv > p.through {
		if rv <= c.before {
			return 0, &kube.ExpiredError{Requested: rv, Oldest: p.through, Reason: kube.ReasonReplaced, Kind: kind}
		}
		return 0, &kube.TooLargeResourceVersionError{Requested: rv, Current: p.through}
	}
	if h, in := p.hole(rv); in {
		reason := kube.ReasonUnseen
		if h.from == 0 && c.before > 0 {
			reason = kube.ReasonReplaced
		}
		return 0, &kube.ExpiredError{Requested: rv, Oldest: h.to, Reason: reason, Kind: kind}
	}
	at, found := p.at(rv)
	if !found {
		return 0, &kube.ExpiredError{Requested: rv, Oldest: p.oldest(), Kind: kind}
	}
	return at, nil
}

// Version returns the resourceVersion of the state at a position, 0 if that was compacted. Within
// a Replace it is that of the state before, at which a reader can begin again without missing
// anything.
func (c *Collection) Version(position int64) kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.version(position)
}

// versionOf returns the resourceVersion of the deletion of a key of the log at a position. Errors:
// *store.CompactedError.
func (c *Collection) versionOf(key string, position int64) (kube.ResourceVersion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if position < c.positions.floor { // the first that is kept belongs to a later change
		return 0, &store.CompactedError{Resource: c.key, Requested: position, Floor: c.positions.floor}
	}
	if rv, is := c.deleting[key]; is && position > c.positions.newest() {
		return rv, nil
	}
	return c.positions.versionOf(position), nil
}

// Newest is the newest position at which the state is one of the other server; 0 before the
// first Replace.
func (c *Collection) Newest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.newest()
}

// Gaps returns the parts of the other server's history, among those after one position, up to another one, of which
// only the difference is known. The first one is what was before the collection: it is after 0.
func (c *Collection) Gaps(after, upTo int64) []wire.Gap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.gaps(after, upTo)
}

// trim drops the positions before a floor of the log, which nobody can ask for.
func (c *Collection) trim(floor int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.trim(floor)
}

// Oldest is the oldest resourceVersion that has a position at or after a floor of the log.
func (c *Collection) Oldest(floor int64) kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.from(floor)
}
