// Package revlog is the embedded storage engine: a segmented, append-only log
// of revisions that is history, watch source and database in one.
//
// A [Log] is the store. A record is one version of one key; a frame is a group of records that
// was written and synced at once; a segment is a file of frames; the manifest is the list of
// segments and of compactions. The index has the location of each retained version, in memory.
// The sequencer is the only goroutine that writes. A feed is a cursor over the written
// records.
//
// Guarantees: a revision is visible only after it is on disk; revisions are
// contiguous and never reused; a damaged directory is refused; compaction removes nothing
// that a reader at or above its resource's floor needs.
//
// sequencer.go and commit.go have what is synced and when a write is acknowledged; manifest.go
// (switchManifest) how the list of segments changes, in memory and on disk; recover.go
// (secure) and tail.go what a start syncs before it serves reads; health.go and
// disk/passing_*.go which failures are temporary (docs/decisions/0008); compact.go and
// retain.go what compaction removes, and the floors; package format the bytes on disk;
// docs/guarantees.md the guarantees with their tests.
package revlog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// Limits and defaults.
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
	// HistoryBytes bounds the bytes of the versions that are not the newest of a
	// live key, beside the last five minutes and the segment that is written;
	// twice as many are never kept. 0 is no bound.
	HistoryBytes int64
	// SegmentBytes is the size of a segment file; 0 means a default.
	SegmentBytes int64
	// GroupWrites is how many writes are synced at once at most; 0 means 1024. Few are for
	// tests of failures.
	GroupWrites int
	// Apart, if not "", is a resource that is no part of what is kept for others: feeds of all
	// resources do not have it, and its floor does not count for ranges over several resources.
	Apart string
	// Early is for a log of what another store has committed, from which it can be read again: writes
	// are visible, and answered, when they are written, and on disk a moment later. A failure of the
	// machine can lose the last ones, and a start after it ends the log before the first that is damaged.
	// Sync waits for the disk.
	Early bool
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
	lock   disk.Held

	requests chan *request
	records  format.Records // those of requests
	between  chan task      // what is done between two groups; each task has room for its answer
	closing  chan struct{}  // closed by Close
	stopped  chan struct{}  // closed when no request will be taken any more
	ended    chan struct{}  // closed when Run has returned
	rolled   chan struct{}  // holds one token: a segment was sealed
	started  atomic.Bool
	closeOne sync.Once
	closeErr error

	// manifestTurn and compactTurn hold one token each: its sender may write
	// the manifest, or compact. compactTurn is taken before manifestTurn.
	manifestTurn chan struct{}
	compactTurn  chan struct{}
	pacer        pacer // of maintenance; with compactTurn

	// dirTurn holds one token: its sender may sync the directory.
	dirTurn chan struct{}

	// Owned by the sequencer: the segment that is written, the last stamp, whether
	// a write into the segment failed halfway, whether unavailable is set, and for how
	// many bytes there was no room when a write was refused.
	active     *segment
	lastMillis int64
	dirtyTail  bool
	retrying   bool
	lacking    int64

	// opened is when Open began. busy is when, after it, the sequencer began what it does now; 0
	// while it waits for requests: what it does is answered by the disk.
	opened time.Time
	busy   atomic.Int64

	// With Options.Early: unsynced holds one token while something is not on disk, and syncing is when, after
	// opened, syncWritten began to wait for the disk; 0: it does not.
	unsynced chan struct{}
	syncTurn chan struct{} // holds one token: its sender may sync the segment that is written
	syncing  atomic.Int64

	counter *counter // of the keys that a Read with a limit leaves out

	// mu guards everything below. Nothing blocks while it is held.
	mu                  sync.Mutex
	index               index.Index
	snapshot            *index.KeyMap // a copy of index.keys for readers; nil when it is stale
	listed              []*segment    // what the manifest lists; see switchManifest
	segments            *segmentSet   // what readers use: listed, and during a merge its sources
	values              index.Ring
	current             int64    // latest visible revision
	durable             int64    // latest that is on disk; less than current only with Options.Early
	behind              *segment // that has what is not on disk yet, if anything is not
	base                int64    // revision of the empty store
	nextSegment         uint32
	compacted           format.Mark
	compacting          *decided        // a compaction that is not in the manifest yet; nil: there is none
	raised              *format.Raised  // what the manifest says; it does not change
	holds               map[*feed]int64 // what feeds with From.Hold have delivered
	wake                chan struct{}   // closed and replaced whenever current or compacted moves
	setbacks            []int64         // revisions above compacted before which the wall clock was set back
	poison              error           // *store.PoisonedError once the disk may have lost something
	unavailable         error           // *store.UnavailableError while writes are refused
	moved               error           // why writes are refused: the directory is not in its place
	groups              int64           // groups of writes that were synced, ever
	refused             int64           // writes that were refused for a cause that passes, ever
	maintenanceFailures int64           // failures of maintenance, ever
	compactions         int64           // ever
	growth              growth          // of history
	syncs               syncs           // which mu does not guard
	closed              bool
}

var _ store.Store = (*Log)(nil)

// Open recovers the log in o.Dir, or makes a new one in an empty directory. It
// reads the whole log once. Errors: *store.LockedError when another process has
// the directory, *store.CorruptError when it is damaged or not a log's,
// *store.UnavailableError. No goroutine is left when it returns.
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
		return nil, errors.Join(err, fs.Dir().Close())
	}
	l := &Log{
		opts: o, fs: fs, logger: o.Logger, lock: held,
		requests:     make(chan *request, maxGroupRequests),
		between:      make(chan task),
		closing:      make(chan struct{}),
		stopped:      make(chan struct{}),
		ended:        make(chan struct{}),
		rolled:       make(chan struct{}, 1),
		unsynced:     make(chan struct{}, 1),
		syncTurn:     make(chan struct{}, 1),
		manifestTurn: make(chan struct{}, 1),
		compactTurn:  make(chan struct{}, 1),
		dirTurn:      make(chan struct{}, 1),
		wake:         make(chan struct{}),
		holds:        map[*feed]int64{},
		opened:       time.Now(),
		counter:      newCounter(),
		index:        index.New(),
		segments:     newSegmentSet(nil),
	}
	l.index.Apart = o.Apart
	if err := l.recover(ctx); err != nil {
		l.segments.release(l)
		return nil, errors.Join(err, held.Close(), fs.Dir().Close())
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
	if o.GroupWrites == 0 {
		o.GroupWrites = maxGroupRequests
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
		return o, fmt.Errorf("base revision %d is not between 0 and %d: %w",
			o.BaseRevision, int64(format.MaxBaseRevision), store.ErrInvalid)
	case o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes:
		return o, fmt.Errorf("segments of %d bytes are not between %d and %d: %w",
			o.SegmentBytes, minSegmentBytes, maxSegmentBytes, store.ErrInvalid)
	case o.GroupWrites < 0:
		return o, fmt.Errorf("groups of %d writes: %w", o.GroupWrites, store.ErrInvalid)
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

// Run takes writes and compacts old history until ctx ends or Close is called.
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
	// Run owns them; they end with ctx, which ends with the sequencer.
	opened := l.head()
	wg.Go(func() { l.keepHistory(ctx, opened) })
	wg.Go(func() { l.noteEnd(ctx, opened) })
	wg.Go(func() { l.syncEarly(ctx) })
	l.sequence(ctx)
	close(l.stopped)
	cancel()
	wg.Wait()
	return l.syncWritten()
}

// Close ends Run, waits for it, and gives the directory back. Reads that are
// in progress finish; every later call is store.ErrClosed.
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
	l.compactTurn <- struct{}{} // a compaction that is in progress ends first
	defer func() { <-l.compactTurn }()
	l.mu.Lock()
	poisoned := l.poison != nil
	l.mu.Unlock()
	var err error
	if !poisoned {
		// It records the end of the log, so that later damage to the tail is
		// distinguished from a torn write.
		err = l.keepManifest()
	}
	l.mu.Lock()
	l.closed = true
	set := l.segments
	l.segments = newSegmentSet(nil)
	l.listed, l.index, l.values, l.snapshot = nil, index.New(), index.Ring{}, nil
	l.mu.Unlock()
	set.release(l)
	return errors.Join(err, l.lock.Close(), l.fs.Dir().Close())
}

// Progress returns the latest visible revision.
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

// Stats describes a Log at one moment.
type Stats struct {
	Revision            int64            // latest visible revision
	Compacted           int64            // history at or below it was compacted; 0 if none was
	Oldest              time.Time        // when the retained history begins; zero while it is empty
	Bytes               int64            // bytes of all segments in use
	Retained            int64            // bytes of the versions that can still be read
	History             int64            // bytes of those that are not the newest of a live key
	Segments            int              // number of segment files
	Keys                int64            // live keys
	ResourceKeys        map[string]int64 // live keys by resource
	Floors              map[string]Floor // floor by resource, where there is one
	Groups              int64            // groups of writes that were synced, since Open
	RefusedWrites       int64            // writes refused for a cause that passes, since Open
	MaintenanceFailures int64            // failures of maintenance, since Open
	Compactions         int64            // compactions that have removed history, since Open
	Syncs               Syncs            // of segments, since Open
}

// Floor is the oldest revision of a resource that can still be read, where
// something was removed below it (see store.CompactedError).
type Floor struct {
	Revision  int64
	Time      time.Time // when the change at Revision was committed; zero if unknown
	Reason    string    // what removed it: "age", "bytes", "requested"; "" if unknown
	RemovedAt time.Time // when it was removed; zero if unknown
}

// ID tells this log from all others: it is made with it, and a copy has it too.
func (l *Log) ID() string { return hex.EncodeToString(l.uuid[:]) }

// Stats returns the present figures; the maps belong to the caller.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Revision: l.current, Compacted: l.compacted.Revision, Segments: len(l.listed),
		Groups: l.groups, RefusedWrites: l.refused, MaintenanceFailures: l.maintenanceFailures,
		Compactions: l.compactions, Syncs: l.syncs.read(),
		ResourceKeys: make(map[string]int64, len(l.index.Resources)), Floors: map[string]Floor{},
	}
	oldest := l.compacted.Millis
	for _, seg := range l.listed {
		s.Bytes += seg.end
		s.Retained += seg.live
	}
	s.History = l.historyLocked()
	for name, res := range l.index.Resources {
		s.Keys += res.Live
		if res.Live > 0 {
			s.ResourceKeys[name] = res.Live
		}
		if res.Floor.Revision > 0 {
			s.Floors[name] = floorOf(res)
		}
		if l.compacted.Revision == 0 && len(res.Changes) > 0 {
			if v, ok := l.index.Version(res.Changes[0]); ok && (oldest == 0 || v.Millis < oldest) {
				oldest = v.Millis
			}
		}
	}
	if oldest != 0 {
		s.Oldest = time.UnixMilli(oldest)
	}
	return s
}
