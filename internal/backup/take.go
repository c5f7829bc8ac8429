package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Source is what is backed up.
type Source struct {
	Store store.Store
	State func() State
}

// Log is the source of a log.
func Log(log *revlog.Log) Source {
	return Source{Store: log, State: func() State {
		s := log.Stats()
		state := State{Compacted: s.Compacted, Objects: s.Keys}
		if s.Compacted > 0 {
			state.CompactedTime = s.Oldest
		}
		return state
	}}
}

// State is what a store says about itself.
type State struct {
	// Compacted is the revision up to which history is compacted now, and CompactedTime when it was
	// written; zero if none is.
	Compacted     int64
	CompactedTime time.Time
	Objects       int64 // about how many there are
}

// Options are those of Take.
type Options struct {
	// History adds the versions that were replaced or deleted, as far as they are kept.
	History bool
	// Server is the version of the program, for the header.
	Server string
	// Encryption returns the beginning of an encrypted value up to the name of its key, "" for any
	// other; nil: none is.
	Encryption func(value []byte) string
}

const (
	// holdWithin is how long compaction waits for a backup. One that takes longer goes on, and fails
	// if compaction removes what it has not read yet.
	holdWithin = 15 * time.Minute
	// pageRecords is how many records are read at once. A page also ends where it becomes large.
	pageRecords = 512
)

// Take writes a backup of a store at its latest revision. Writes to the store go on meanwhile;
// compaction waits, for a quarter of an hour at most. Take needs memory for some blocks, however
// large the store is. Values are written as the store has them. After an error what was written is
// no backup, as every Reader notices. Errors: *store.CompactedError if compaction has overtaken
// it, those of the store and of to.
func Take(ctx context.Context, from Source, o Options, to io.Writer) (Summary, error) {
	h, err := hold(ctx, from, o)
	if err != nil {
		return Summary{}, err
	}
	release := time.AfterFunc(holdWithin, func() { _ = h.changes.Close() }) // it never fails
	defer func() { release.Stop(); _ = h.changes.Close() }()
	header := Header{
		Revision: h.revision, Made: time.Now().UTC(), Server: o.Server, History: o.History, Since: h.revision,
		Expected: h.state.Objects,
	}
	if o.History {
		header.Since, header.SinceTime = h.state.Compacted, h.state.CompactedTime.UTC()
	}
	w, err := newWriter(to, header, o.Encryption)
	if err == nil {
		err = takeLive(ctx, from.Store, h.revision, w)
	}
	if err == nil && o.History {
		err = takeEnded(ctx, from.Store, header, w)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("back up resourceVersion %d: %w", h.revision, err)
	}
	return w.finish()
}

// held is what a backup reads, and what protects it from compaction: a stream that is not read.
type held struct {
	changes  store.Changes
	revision int64
	state    State
}

// hold finds out what is to be read, and protects it.
func hold(ctx context.Context, from Source, o Options) (h held, err error) {
	for {
		h.state = from.State()
		if h.revision, err = from.Store.Progress(ctx); err != nil {
			return h, err
		}
		after := h.revision
		if o.History {
			after = h.state.Compacted
		}
		h.changes, err = from.Store.Changes(ctx, store.From{After: after, Hold: true})
		if _, overtaken := errors.AsType[*store.CompactedError](err); overtaken {
			continue // by a compaction since State or Progress
		}
		return h, err
	}
}

// takeLive writes what the keys held at a revision.
func takeLive(ctx context.Context, from store.Store, revision int64, w *writer) error {
	q := store.Query{
		End: store.PrefixEnd(""), AtRevision: revision, Limit: pageRecords, Buffer: &store.Buffer{},
	}
	for {
		page, err := from.Read(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			err := w.put(Record{
				Key: r.Key, Value: r.Value, Revision: r.ModRevision, Create: r.CreateRevision, Millis: r.Time.UnixMilli(),
			})
			if err != nil {
				return err
			}
			q.Start = r.Key + "\x00"
		}
		if !page.More {
			return nil
		}
	}
}

// takeEnded writes the versions that were replaced or deleted up to the revision of the backup.
func takeEnded(ctx context.Context, from store.Store, h Header, w *writer) (err error) {
	changes, err := from.Changes(ctx, store.From{
		After: h.Since, UpTo: h.Revision, Buffer: &store.Buffer{},
		Want: func(store.Change) (value, previous bool) { return false, true },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, changes.Close()) }()
	for {
		batch, err := changes.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, c := range batch.Changes {
			if c.Previous == nil {
				continue
			}
			err := w.put(Record{
				Key: c.Key, Value: c.Previous.Value, Revision: c.Previous.ModRevision, Create: c.Previous.CreateRevision,
				Millis: c.Previous.Time.UnixMilli(),
				Until:  c.Revision, UntilMillis: c.Time.UnixMilli(), Deleted: c.Deleted,
			})
			if err != nil {
				return err
			}
		}
	}
}
