package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// directory is the log of a data directory.
type directory struct {
	log   *revlog.Log
	keys  *encrypted.Store
	plain plain
	count int64 // of objects
	// check, if not nil, says why an object cannot be moved; stored is its value in the clear.
	check func(ctx context.Context, o *object, stored []byte) error
}

// plain reads a value in the clear as servers do.
type plain interface {
	Decode(key string, stored []byte) ([]byte, error)
}

// openDirectory opens the directory of a server that does not run. The caller closes it.
func (m *mover) openDirectory(ctx context.Context) (*directory, error) {
	dir := filepath.Join(m.Dir, "log")
	if _, err := os.Stat(filepath.Join(dir, format.ManifestName)); err != nil {
		return nil, fmt.Errorf("%s is not the data directory of a gapless server: %w", m.Dir, err)
	}
	return m.openLog(ctx, revlog.Options{Dir: dir})
}

// openMade opens a log that was made just now, in a directory of which the lock is held.
func (m *mover) openMade(ctx context.Context, files disk.FS) (*directory, error) {
	return m.openLog(ctx, revlog.Options{Dir: files.Dir().Path(), FS: held{files}})
}

func (m *mover) openLog(ctx context.Context, o revlog.Options) (*directory, error) {
	log, err := revlog.Open(ctx, o)
	if locked, is := errors.AsType[*store.LockedError](err); is {
		return nil, fmt.Errorf("a server is running on %s: stop it first: %w", m.Dir, locked)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", m.Dir, err)
	}
	keys, err := encrypted.Open(ctx, log, m.Encryption)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &directory{log: log, keys: keys, plain: m.plain, count: log.Stats().Keys}, nil
}

func (d *directory) close() error {
	d.keys.Close()
	return d.log.Close()
}

// pageRecords is how many records are read at once. A page also ends where it becomes large.
const pageRecords = 512

// pages returns the objects of a resource; "": all.
func (d *directory) pages(ctx context.Context, resource string) pages {
	from, to := definitions+"/", store.PrefixEnd(definitions+"/")
	ranges := [][2]string{{from, to}, {"", from}, {to, store.PrefixEnd("")}}
	if resource != "" {
		ranges = [][2]string{{resource + "/", store.PrefixEnd(resource + "/")}}
	}
	return func(yield func([]object, error) bool) {
		for _, r := range ranges {
			q := store.Query{Start: r[0], End: r[1], Limit: pageRecords}
			for more := true; more; {
				page, err := d.log.Read(ctx, q)
				if err != nil {
					yield(nil, fmt.Errorf("read the directory: %w", err))
					return
				}
				made := converted(page.Records, func(r store.Record) object { return d.object(ctx, r) })
				if !yield(made, cmp.Or(ctx.Err(), failed(made))) {
					return
				}
				if more = page.More; more {
					q.Start = page.Records[len(page.Records)-1].Key + "\x00"
				}
			}
		}
	}
}

// object reads a record as servers do.
func (d *directory) object(ctx context.Context, r store.Record) object {
	o := object{key: r.Key, mod: r.ModRevision, create: r.CreateRevision, written: r.Time}
	stored, err := d.keys.Decrypt(ctx, r.Key, r.Value)
	if err == nil {
		o.value, err = d.plain.Decode(r.Key, stored)
	}
	if err == nil && d.check != nil {
		err = d.check(ctx, &o, stored)
	}
	o.err = err
	return o
}

// held is a directory of which somebody holds the lock, and the handle, for longer.
type held struct{ disk.FS }

// Dir implements disk.FS.
func (h held) Dir() disk.Dir { return heldDir{h.FS.Dir()} }

type heldDir struct{ disk.Dir }

// Lock implements disk.Dir.
func (heldDir) Lock() (disk.Held, error) { return disk.Unlocked{}, nil }

// Close implements disk.Dir.
func (heldDir) Close() error { return nil }
