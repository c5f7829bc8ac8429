package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

const (
	// By default a restored server begins at the number of microseconds since epoch. No server writes once a
	// microsecond. So that is above all that was given out before by servers that began with a new log, or
	// were restored so. The number has fifteen digits until 2051, for clients that compare resourceVersions
	// as strings.
	perRevision = time.Microsecond
	// A backup of which the revision is above has been raised otherwise. Then bump revisions are skipped,
	// and those of the time since it was made. bump is what the documentation of
	// etcdutl snapshot restore --bump-revision recommends.
	bump = 1_000_000_000

	logName      = "log"
	lostAndFound = "lost+found" // of a file system that is mounted here
)

// ErrNotEmpty says that the directory of a restore has files.
var ErrNotEmpty = errors.New("the directory is not empty: restore into an empty one, or one that does not exist")

// RestoreOptions are those of Restore.
type RestoreOptions struct {
	// Dir is the data directory to make.
	Dir string
	// Bump is how many resourceVersions after that of the backup are skipped; 0: by default.
	Bump int64
	// At says which state is restored. A backup with history has earlier ones than its own.
	At Moment
	// Progress is called with the bytes and records that were read so far, now and then; nil is allowed.
	Progress func(h Header, bytes, records int64)
	// Written is called with how many records of how many were written of what was read, now and then; nil is allowed.
	Written func(done, total int64)
	// FS replaces the file system of the log's directory, and RunBytes how much is sorted in memory,
	// for tests.
	FS       func(dir string) (disk.FS, error)
	RunBytes int
	// Now replaces the clock, for tests.
	Now func() time.Time
}

// Restored is the result of Restore.
type Restored struct {
	Header  Header
	Summary Summary
	Sum     []byte // the checksum of the file
	Objects int64  // that were restored
	At      int64  // the resourceVersion of which the state was restored
	// Revision is the resourceVersion of the new server before its first write. It has compacted the
	// history up to there.
	Revision int64
}

// Verify reads a whole file. Errors are those of Reader.
func Verify(ctx context.Context, from io.Reader, progress func(h Header, bytes, records int64)) (Restored, error) {
	r, err := NewReader(from)
	if err != nil {
		return Restored{}, err
	}
	err = each(ctx, r, progress, func(Record) error { return nil })
	return result(r), err
}

// Restore makes a data directory of a file. The directory must be empty, or must not exist. Before
// the whole file was checked there is no data directory, but one that a server refuses; after an
// error or the end of the process, what was made can be restored into again. Errors: those of
// Reader, ErrNotEmpty, *store.LockedError during another restore, those of the file system.
func Restore(ctx context.Context, from io.Reader, o RestoreOptions) (_ Restored, err error) {
	if err := checkEmpty(o.Dir); err != nil {
		return Restored{}, err
	}
	r, err := NewReader(from)
	if err != nil {
		return Restored{}, err
	}
	at, err := o.At.in(r.Header())
	if err != nil {
		return Restored{}, err
	}
	end := build.End{From: r.Header().Revision, To: o.end(r.Header()), Time: r.Header().Made}
	var done Restored
	err = o.make(func(files disk.FS) (err error) {
		done, err = o.fill(ctx, r, files, at, end)
		return err
	})
	if err != nil {
		return Restored{}, err
	}
	return done, nil
}

// Fill makes a data directory, as Restore does, of records that are in no file: those that another store has at
// the revision of a header. Several of them may have one revision; then some get others. check, before the
// directory can be served, gets what was made. Errors: ErrNotEmpty, *store.LockedError, those of the records.
func Fill(
	ctx context.Context, h Header, records iter.Seq2[store.Record, error], o RestoreOptions, check func(disk.FS) error,
) (Restored, error) {
	if err := checkEmpty(o.Dir); err != nil {
		return Restored{}, err
	}
	done := Restored{Header: h, At: h.Revision, Revision: o.end(h)}
	err := o.make(func(files disk.FS) error {
		log := build.New(files, o.RunBytes)
		for r, err := range records {
			if err == nil {
				err = log.Put(r)
			}
			if err != nil {
				return err
			}
			done.Objects++
		}
		if err := log.Finish(ctx, build.End{From: h.Revision, To: done.Revision, Time: h.Made, Shared: true}); err != nil {
			return err
		}
		return check(files)
	})
	return done, err
}

// make makes the directory, and calls fill with that of the log. After an error there is none.
func (o RestoreOptions) make(fill func(disk.FS) error) error {
	made, err := durable.Missing(o.Dir)
	if err != nil {
		return err
	}
	shop, err := o.enter()
	if err == nil {
		if err = empty(shop.files); err == nil {
			err = fill(shop.files)
		}
		err = shop.leave(filepath.Join(o.Dir, logName), err)
	}
	if err != nil {
		for _, dir := range made {
			_ = os.Remove(dir) // somebody else has put something into it
		}
	}
	return err
}

// fill writes the log.
func (o RestoreOptions) fill(ctx context.Context, r *Reader, files disk.FS, at Moment, end build.End) (Restored, error) {
	log := build.New(files, o.RunBytes)
	log.Progress = o.Written
	chosen := choice{at: at, open: math.MaxInt64}
	err := each(ctx, r, o.Progress, func(record Record) error {
		if !chosen.has(record) {
			return nil
		}
		return log.Put(store.Record{
			Key: record.Key, Value: record.Value, ModRevision: record.Revision, CreateRevision: record.Create,
			Time: time.UnixMilli(record.Millis),
		})
	})
	done := result(r)
	if err == nil {
		err = chosen.check(done.Summary)
	}
	if err == nil {
		err = log.Finish(ctx, end)
	}
	done.Objects, done.At, done.Revision = chosen.objects, at.Revision, end.To
	if !at.Time.IsZero() {
		done.At = chosen.reached
	}
	return done, err
}

// empty removes what a restore left that was killed.
func empty(files disk.FS) error {
	names, err := files.Dir().Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := files.Remove(name); err != nil {
			return fmt.Errorf("remove what an earlier restore left: %w", err)
		}
	}
	return nil
}

// end returns the revision after which a log of a backup continues.
func (o RestoreOptions) end(h Header) int64 {
	if o.Bump > 0 {
		return h.Revision + o.Bump
	}
	now := time.Now()
	if o.Now != nil {
		now = o.Now()
	}
	if now.Before(h.Made) {
		now = h.Made // one of the clocks is wrong
	}
	if h.Revision < int64(h.Made.Sub(epoch())/perRevision) {
		return int64(now.Sub(epoch()) / perRevision)
	}
	return h.Revision + bump + int64(now.Sub(h.Made)/perRevision)
}

// epoch is before the first server.
func epoch() time.Time { return time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC) }

// each calls use for every record of a file. The file is whole if it returns nil.
func each(ctx context.Context, r *Reader, progress func(h Header, bytes, records int64), use func(Record) error) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		records, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := use(record); err != nil {
				return err
			}
		}
		if progress != nil {
			bytes, records := r.Offset()
			progress(r.Header(), bytes, records)
		}
	}
}

// result returns what a reader has read.
func result(r *Reader) Restored {
	done := Restored{Header: r.Header(), At: r.Header().Revision}
	done.Summary, done.Sum = r.Summary()
	done.Objects = done.Summary.Objects
	return done
}

// checkEmpty returns ErrNotEmpty for a directory that has more than what a restore left that was killed, or works in it.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		if e.Name() != build.Unfinished && e.Name() != disk.LockName && e.Name() != lostAndFound {
			return fmt.Errorf("%s contains %s: %w", dir, e.Name(), ErrNotEmpty)
		}
	}
	return nil
}
