// Package revlog is the embedded storage engine: a segmented, append-only log
// of revisions that is history, watch source and database in one.
//
// It has eight nouns. A [Log] is the store. A record is one version of one key;
// a frame is a group of records that was written and synced at once; a segment
// is a file of frames; the manifest is the list of segments and of what was
// forgotten. The index says in memory where each retained version lies. The
// sequencer is the one goroutine that writes. A feed is a cursor over what was
// written.
//
// Promises: a revision is visible only after it is on disk; revisions are
// contiguous and never reused; a damaged directory is refused and not guessed
// at; forgetting history removes nothing that a reader at or above its
// resource's floor needs.
package revlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// Limits and defaults. Their sources are spec/storage.md section 9 unless noted.
const (
	// DefaultBaseRevision has ten digits, so that clients that compare
	// resource versions as strings (fabric8 4.x) order them rightly.
	DefaultBaseRevision = 1_000_000_000
	// DefaultSegmentBytes is the preallocated size of one segment file.
	DefaultSegmentBytes = 64 << 20
	// MaxKeyBytes and MaxValueBytes bound one write.
	MaxKeyBytes   = 4 << 10
	MaxValueBytes = 8 << 20

	memorySegmentBytes = 4 << 20
	minSegmentBytes    = 4 << 10
	maxSegmentBytes    = 1 << 30 // offsets inside a segment are kept in 32 bits
)

// Options says where a Log lives and how much it remembers.
type Options struct {
	// Dir is the log's own directory; it is made if it is missing. It must hold
	// nothing else.
	Dir string
	// Memory keeps everything in memory: the same code over files of memory.
	Memory bool
	// BaseRevision is the revision of the empty store, so the first write gets
	// BaseRevision+1. 0 means DefaultBaseRevision. It is used once, when the
	// directory is empty.
	BaseRevision int64
	// History is how long superseded versions are kept; 0 keeps them forever.
	History time.Duration
	// HistoryBytes bounds the bytes of all retained versions; 0 does not.
	HistoryBytes int64
	// SegmentBytes is the size of a segment file; 0 means a default.
	SegmentBytes int64
	// FS replaces the file system below Dir, for tests of failures.
	FS disk.FS
	// Logger receives life-cycle messages; nil discards them.
	Logger *slog.Logger
}

// Log is a store.Store over one directory. Open makes it readable; it accepts
// writes while Run is running.
type Log struct {
	opts   Options
	fs     disk.FS
	logger *slog.Logger
	uuid   format.StoreID
	lock   io.Closer

	requests chan *request
	closing  chan struct{} // closed by Close
	stopped  chan struct{} // closed when no request will be taken any more
	ended    chan struct{} // closed when Run has returned
	rolled   chan struct{} // holds one token: a segment was sealed
	started  atomic.Bool
	closeOne sync.Once
	closeErr error

	// manifestTurn and compactTurn hold one token each: whoever sent it writes
	// the manifest, or compacts. compactTurn is taken before manifestTurn.
	manifestTurn chan struct{}
	compactTurn  chan struct{}

	// Owned by the sequencer: the segment that is written and the last stamp.
	active     *segment
	lastMillis int64

	// mu guards everything below. Nothing blocks while it is held.
	mu          sync.Mutex
	index       index
	snapshot    *keyMap // a copy of index.keys for readers; nil when it is stale
	segments    *segmentSet
	values      valueRing
	current     int64 // latest durable revision
	base        int64 // revision of the empty store
	nextSegment uint32
	compacted   format.Mark
	wake        chan struct{} // closed and replaced whenever current moves
	poison      error         // *store.PoisonedError once the disk failed
	closed      bool
}

var _ store.Store = (*Log)(nil)

// Open recovers the log in o.Dir, or makes a new one in an empty directory. It
// reads the whole log once. Errors: *store.LockedError when another process has
// the directory, *store.CorruptError when it is damaged or not ours,
// *store.NoSpaceError. It starts no goroutine.
func Open(ctx context.Context, o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	fs, err := o.fileSystem()
	if err != nil {
		return nil, err
	}
	held, err := fs.Dir().Lock()
	if err != nil {
		return nil, err
	}
	l := &Log{
		opts: o, fs: fs, logger: o.Logger, lock: held,
		requests:     make(chan *request, maxGroupRequests),
		closing:      make(chan struct{}),
		stopped:      make(chan struct{}),
		ended:        make(chan struct{}),
		rolled:       make(chan struct{}, 1),
		manifestTurn: make(chan struct{}, 1),
		compactTurn:  make(chan struct{}, 1),
		wake:         make(chan struct{}),
		index:        newIndex(),
		segments:     newSegmentSet(nil),
	}
	if err := l.recover(ctx); err != nil {
		l.segments.release(l)
		return nil, errors.Join(err, held.Close())
	}
	return l, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BaseRevision == 0 {
		o.BaseRevision = DefaultBaseRevision
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
		if o.Memory {
			o.SegmentBytes = memorySegmentBytes
		}
		if o.HistoryBytes > 0 { // a budget is kept by whole segments: have some
			o.SegmentBytes = max(1<<20, min(o.SegmentBytes, o.HistoryBytes/8))
		}
	}
	switch {
	case o.BaseRevision < 0 || o.BaseRevision > format.MaxBaseRevision:
		return o, fmt.Errorf("base revision %d is not between 0 and %d: %w", o.BaseRevision, int64(format.MaxBaseRevision), store.ErrInvalid)
	case o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes:
		return o, fmt.Errorf("segments of %d bytes are not between %d and %d: %w",
			o.SegmentBytes, minSegmentBytes, maxSegmentBytes, store.ErrInvalid)
	case o.History < 0 || o.HistoryBytes < 0:
		return o, fmt.Errorf("a negative amount of history: %w", store.ErrInvalid)
	case o.Dir == "" && !o.Memory && o.FS == nil:
		return o, fmt.Errorf("no directory for the log: %w", store.ErrInvalid)
	}
	return o, nil
}

func (o Options) fileSystem() (disk.FS, error) {
	switch {
	case o.FS != nil:
		return o.FS, nil
	case o.Memory:
		return disk.NewMemory(), nil
	default:
		return disk.NewOS(o.Dir)
	}
}

// Run takes writes and forgets old history until ctx ends or Close is called.
// It is called once. It returns nil, or the *store.PoisonedError of a disk that
// failed meanwhile.
func (l *Log) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		select {
		case <-l.closing:
			return nil // Close came first
		default:
		}
		return fmt.Errorf("run the log a second time: %w", store.ErrInvalid)
	}
	defer close(l.ended)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	// Run owns the keeper; it ends with ctx, which ends with the sequencer.
	wg.Go(func() { l.keepHistory(ctx) })
	l.sequence(ctx)
	close(l.stopped)
	cancel()
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poison
}

// Close ends Run, waits for it, and gives the directory back. Reads that are
// under way finish; everything later is store.ErrClosed.
func (l *Log) Close() error {
	l.closeOne.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Log) close() error {
	close(l.closing)
	if l.started.CompareAndSwap(false, true) {
		close(l.stopped)
		close(l.ended)
	}
	<-l.ended
	l.compactTurn <- struct{}{} // a compaction that is under way ends first
	defer func() { <-l.compactTurn }()
	l.mu.Lock()
	poisoned := l.poison != nil
	l.mu.Unlock()
	var err error
	if !poisoned {
		// It records how far the log reaches, so that damage to the tail that
		// happens while nobody runs is told from a torn write.
		err = l.switchManifest(func(*format.Manifest) {})
	}
	l.mu.Lock()
	l.closed = true
	set := l.segments
	l.segments = newSegmentSet(nil)
	l.index, l.values, l.snapshot = newIndex(), valueRing{}, nil
	l.mu.Unlock()
	set.release(l)
	return errors.Join(err, l.lock.Close())
}

// Progress returns the latest durable revision.
func (l *Log) Progress(ctx context.Context) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, store.ErrClosed
	}
	return l.current, nil
}

func (l *Log) setPoison(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison == nil {
		l.poison = &store.PoisonedError{Cause: cause}
		l.logger.Error("disk failed, writes are refused from now on", slog.Any("error", cause))
	}
	return l.poison
}

// Stats describes a Log at one moment.
type Stats struct {
	Revision     int64            // latest durable revision
	Compacted    int64            // history at or below it was forgotten; 0 if none was
	Oldest       time.Time        // when the retained history begins; zero while it is empty
	Bytes        int64            // bytes of all segments in use
	Retained     int64            // bytes of the versions that can still be read
	Segments     int              // number of segment files
	Keys         int64            // live keys
	ResourceKeys map[string]int64 // live keys by resource
	Floors       map[string]Floor // floor by resource, where there is one
}

// Floor is the oldest revision of a resource that can still be asked for, where
// something was removed below it (see store.CompactedError).
type Floor struct {
	Revision  int64
	Time      time.Time // when the change at Revision was committed; zero if unknown
	Reason    string    // what removed it: "age", "bytes", "requested"; "" if unknown
	RemovedAt time.Time // when it was removed; zero if unknown
}

// Stats returns the present figures; the maps belong to the caller.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Revision: l.current, Compacted: l.compacted.Revision, Segments: len(l.segments.ordered),
		ResourceKeys: make(map[string]int64, len(l.index.resources)), Floors: map[string]Floor{},
	}
	oldest := l.compacted.Millis
	for _, seg := range l.segments.ordered {
		s.Bytes += seg.end
		s.Retained += seg.live
	}
	for name, res := range l.index.resources {
		s.Keys += res.live
		if res.live > 0 {
			s.ResourceKeys[name] = res.live
		}
		if res.floor.Revision > 0 {
			s.Floors[name] = Floor{
				Revision: res.floor.Revision, Time: moment(res.floor.Millis),
				Reason: res.floor.Reason, RemovedAt: moment(res.floor.Removed),
			}
		}
		if l.compacted.Revision == 0 && len(res.changes) > 0 {
			if v, ok := l.index.version(res.changes[0]); ok && (oldest == 0 || v.millis < oldest) {
				oldest = v.millis
			}
		}
	}
	if oldest != 0 {
		s.Oldest = time.UnixMilli(oldest)
	}
	return s
}
