// Package mirror keeps the history of collections that another server commits, under that
// server's resourceVersions.
//
// A [Mirror] is one log on disk, a revlog, for all collections. A [Collection] is one resource
// of the other server. Its positions are the log's revisions: the log numbers what it is given
// without gaps, and a collection knows which of the other server's resourceVersions belongs to
// which position. A [Change] is one change of the other server. A hole is a stretch of
// resourceVersions of which only the difference between its ends is known, because the other
// server no longer had the changes.
//
// Who fills a collection may be a watch of an API server or of etcd: it calls Append, Replace
// and Progress, in order. docs/decisions/0016 says why positions and resourceVersions are two
// things.
//
// positions.go has how a resourceVersion of upstream becomes a position, write.go what a
// re-list records.
package mirror

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/kube"
)

// Options says where a mirror lives and how much it keeps.
type Options struct {
	// Dir is the log's directory; with Memory it is not used.
	Dir    string
	Memory bool
	// History and HistoryBytes bound the history; see revlog.Options.
	History      time.Duration
	HistoryBytes int64
	// Key, of KeyBytes, encrypts the objects of the collections for which Sealed returns true; nil:
	// nothing is encrypted.
	Key    []byte
	Sealed func(name string) bool
	// FS replaces the file system below Dir, for tests of failures. SegmentBytes and GroupWrites
	// are for them too; see revlog.Options.
	FS           disk.FS
	SegmentBytes int64
	GroupWrites  int

	Logger *slog.Logger // nil: none
}

// Mirror is the log of all collections. It is safe for concurrent use.
type Mirror struct {
	log    *revlog.Log
	logger *slog.Logger
	seal   cipher.AEAD // nil: there is no key
	sealed func(name string) bool

	// mu guards what follows.
	mu     sync.Mutex
	open   map[string]*Collection // by Collection.key
	former map[string]bool        // keys of former histories of which objects may be left
}

// Open opens the log, or creates it. A log that is damaged is moved aside, to Dir with the
// suffix ".damaged", and an empty one takes its place: everything in it can be read again from
// the other server, besides the history. A directory that is not a log's is refused. Errors:
// those of revlog.Open.
func Open(ctx context.Context, o Options) (*Mirror, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	seal, err := newSeal(o.Key)
	if err != nil {
		return nil, err
	}
	log, err := openLog(ctx, o)
	if damage, is := errors.AsType[*store.CorruptError](err); is && !o.Memory && o.FS == nil && damage.Path != o.Dir {
		aside := o.Dir + ".damaged"
		o.Logger.ErrorContext(ctx, "the log is damaged: the history begins anew", slog.Any("error", damage),
			slog.String("moved_to", aside))
		if err := errors.Join(os.RemoveAll(aside), os.Rename(o.Dir, aside)); err != nil {
			return nil, fmt.Errorf("move the damaged log aside: %w", err)
		}
		log, err = openLog(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return &Mirror{
		log: log, logger: o.Logger, seal: seal, sealed: o.Sealed, open: map[string]*Collection{}, former: map[string]bool{},
	}, nil
}

func openLog(ctx context.Context, o Options) (*revlog.Log, error) {
	return revlog.Open(ctx, revlog.Options{
		Dir: o.Dir, Memory: o.Memory, History: o.History, HistoryBytes: o.HistoryBytes, FS: o.FS, Logger: o.Logger,
		SegmentBytes: o.SegmentBytes, GroupWrites: o.GroupWrites,
	})
}

// tendEvery is how often progress is recorded in the log, and memory of compacted history
// given back.
const tendEvery = 10 * time.Second

// Run takes changes until ctx ends. It is called once. Errors: those of revlog.Log.Run.
func (m *Mirror) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	logCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() { ended <- m.log.Run(logCtx) }() // Run waits for it
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.tend(ctx)
		case err := <-ended:
			return err
		case <-ctx.Done():
			m.tend(logCtx)
			stop()
			return <-ended
		}
	}
}

// tend records the progress of collections, drops positions that are compacted, and removes
// what is left of former histories.
func (m *Mirror) tend(ctx context.Context) {
	m.discardFormer(ctx)
	floors := m.log.Stats().Floors
	for _, c := range m.collections() {
		c.trim(floors[c.key].Revision)
		if err := c.noteProgress(ctx); err != nil && ctx.Err() == nil {
			m.logger.WarnContext(ctx, "the progress of a mirrored resource was not recorded", slog.String("resource", c.name),
				slog.Any("error", err))
		}
	}
}

func (m *Mirror) collections() []*Collection {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Collection, 0, len(m.open))
	for _, c := range m.open {
		all = append(all, c)
	}
	return all
}

// Close closes the log; Run has returned, or returns.
func (m *Mirror) Close() error { return m.log.Close() }

// Store is the log, for reading.
func (m *Mirror) Store() store.Store { return m.log }

// Stats describes the log.
func (m *Mirror) Stats() revlog.Stats { return m.log.Stats() }

// Resources describes what the log has of each collection, by its Key.
func (m *Mirror) Resources() map[string]revlog.ResourceStats { return m.log.Resources() }

// ExpiresAt returns when the first change of a collection, by its Key, after a position will be removed, as
// revlog.Log.ExpiresAt foresees it; zero: there is no such change, or it is not foreseen.
func (m *Mirror) ExpiresAt(key string, position int64) time.Time {
	return m.log.ExpiresAt(key, position)
}

// Writable returns nil if a change would be taken now, otherwise the reason.
func (m *Mirror) Writable() error { return m.log.Writable() }

// Durable returns nil as long as nothing that was recorded can be lost.
func (m *Mirror) Durable() error { return m.log.Durable() }

// Collection opens a collection by its name, "pods.v1" or "deployments.v1.apps", with the history
// that the log has of it. The name has no slash. Each is opened once at a time. Errors: those of
// the log.
func (m *Mirror) Collection(ctx context.Context, name string) (*Collection, error) {
	epoch, before, err := m.epoch(ctx, name)
	if err != nil {
		return nil, err
	}
	return m.openEpoch(ctx, name, epoch, before)
}

// Rewrite begins a new history of a collection: the other server's history went back, or it is
// another server. It returns the collection's successor, which is empty. Nothing of the former
// history is served by it.
func (m *Mirror) Rewrite(ctx context.Context, c *Collection) (*Collection, error) {
	release, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	next, before := c.epoch+1, max(c.Reached(), c.before)
	_, err = m.log.Append(ctx, []revlog.Write{{Key: epochKey(c.name), Value: encodeEpoch(next, before)}})
	release()
	if err != nil {
		return nil, fmt.Errorf("begin a new history of %s: %w", c.name, err)
	}
	m.Release(c)
	opened, err := m.openEpoch(ctx, c.name, next, before)
	m.discardFormer(ctx)
	return opened, err
}

// Release closes a collection; its history stays in the log. It waits for what the collection is
// writing.
func (m *Mirror) Release(c *Collection) {
	c.end()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[c.key] == c {
		delete(m.open, c.key)
	}
}

func (m *Mirror) openEpoch(ctx context.Context, name string, epoch uint64, before kube.ResourceVersion) (*Collection, error) {
	c := newCollection(m.log, name, epoch, before)
	if m.sealed != nil && m.sealed(name) {
		c.seal = m.seal
	}
	if err := c.read(ctx); err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[c.key] != nil {
		return nil, fmt.Errorf("the collection %s is open already", name)
	}
	m.open[c.key] = c
	if epoch > 0 {
		m.former[keyOf(name, epoch-1)] = true // a crash may have left something
	}
	return c, nil
}

// epoch returns which history of a collection is the current one, and the resourceVersion up to
// which there was a former one.
func (m *Mirror) epoch(ctx context.Context, name string) (epoch uint64, before kube.ResourceVersion, err error) {
	page, err := m.log.Read(ctx, store.Query{Start: epochKey(name)})
	if err != nil || len(page.Records) == 0 {
		return 0, 0, err
	}
	return decodeEpoch(page.Records[0].Value)
}

// discardFormer deletes what is left of former histories. What fails is done the next time.
func (m *Mirror) discardFormer(ctx context.Context) {
	m.mu.Lock()
	keys := slices.Collect(maps.Keys(m.former))
	m.mu.Unlock()
	for _, key := range keys {
		if err := m.discard(ctx, key); err != nil {
			m.logger.WarnContext(ctx, "a former history was not removed", slog.String("key", key), slog.Any("error", err))
			continue
		}
		m.mu.Lock()
		delete(m.former, key)
		m.mu.Unlock()
	}
}

// discard deletes the objects of a former history, and its marks; compaction removes them from
// the log.
func (m *Mirror) discard(ctx context.Context, key string) error {
	for _, prefix := range []string{key + "/", ownPrefix(key)} {
		for more := true; more; {
			page, err := m.log.Read(ctx, store.Query{
				Start: prefix, End: store.PrefixEnd(prefix), Limit: pageObjects,
				Want: func(string, int64) bool { return false },
			})
			if err != nil {
				return err
			}
			writes := make([]revlog.Write, len(page.Records))
			for i, r := range page.Records {
				writes[i] = revlog.Write{Key: r.Key, Delete: true}
			}
			if _, err := m.log.Append(ctx, writes); err != nil {
				return err
			}
			more = page.More
		}
	}
	return nil
}

// Stored implements stored.Versions: a stored value is the object's resourceVersion and its
// JSON. Errors: ErrSealed.
func (m *Mirror) Stored(value []byte) (rv kube.ResourceVersion, object []byte, err error) {
	return opened(m.seal, value)
}

// Deleted implements stored.Versions.
func (m *Mirror) Deleted(key string, revision int64) (kube.ResourceVersion, error) {
	m.mu.Lock()
	c := m.open[store.ResourceOf(key)]
	m.mu.Unlock()
	if c == nil {
		return 0, fmt.Errorf("the deletion of %q at revision %d: %w", key, revision, ErrReleased)
	}
	return c.versionOf(key, revision)
}
