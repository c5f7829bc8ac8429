package migrate

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// IntoDirectory moves the objects of etcd into a directory that is empty or does not exist, as a restore of a
// backup does: until all were compared it is none that a server takes. etcd is only read. Errors:
// *UnmovableError, *InUseError, *DifferenceError, ErrChanged, the *members.Migration of objects that are not all
// in etcd, backup.ErrNotEmpty, *store.LockedError.
func IntoDirectory(ctx context.Context, o Options) (done Result, err error) {
	m, err := open(ctx, o)
	if err != nil {
		return done, err
	}
	defer func() { err = m.close(err) }()
	begun, err := m.free(ctx)
	if err == nil && begun != nil {
		err = begun
	}
	if err != nil {
		return done, err
	}
	from := m.cluster()
	plan, err := m.checkFrom(ctx, from)
	if err != nil {
		return done, err
	}
	if err := m.Checked(plan); err != nil {
		return done, err
	}
	keys, err := encrypted.Open(ctx, nil, m.Encryption)
	if err != nil {
		return done, err
	}
	defer keys.Close()
	began := time.Now()
	made, err := backup.Fill(ctx, backup.Header{Revision: from.rev, Made: began.UTC()}, m.records(ctx, from, keys),
		backup.RestoreOptions{Dir: m.Dir, Bump: m.Bump}, func(files disk.FS) error {
			done.Wrote = time.Since(began)
			return m.compareMade(ctx, from, files, &done)
		})
	done.Written, done.Revision = made.Objects, made.Revision
	return done, err
}

// checkFrom checks that all objects can be moved.
func (m *mover) checkFrom(ctx context.Context, from *cluster) (Plan, error) {
	var leftOut, unserved named
	err := from.scan(ctx, func(key string) error {
		if from.leavesOut(key) {
			leftOut.add(key)
		} else {
			unserved.add(key + " is no object that gapless serves: --exclude leaves it out")
		}
		return nil
	})
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Objects: from.count, Etcd: from.rev, LeftOut: leftOut.first, LeftOutCount: leftOut.count}
	bad, err := m.define(ctx, from.pages(ctx, definitions))
	if err != nil {
		return plan, err
	}
	for _, text := range unserved.first {
		bad.named.add(text)
	}
	bad.count += unserved.count - int64(len(unserved.first))
	count := counter{report: m.Progress, step: Checking, of: from.count}
	err = each(ctx, from.pages(ctx, ""), func(o *object) error {
		if o.err = fits(o); o.err != nil {
			bad.add(o)
		}
		count.add()
		return nil
	})
	if err != nil {
		return plan, err
	}
	return plan, bad.unmovable(0)
}

// records are the objects of etcd as the directory has them.
func (m *mover) records(ctx context.Context, from *cluster, keys *encrypted.Store) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		count := counter{report: m.Progress, step: Writing, of: from.count}
		stop := errors.New("nobody reads on")
		err := each(ctx, from.pages(ctx, ""), func(o *object) error {
			if o.err != nil {
				return o.err
			}
			value, err := keys.Encrypt(ctx, o.key, o.value)
			if err != nil {
				return err
			}
			count.add()
			r := store.Record{Key: o.key, Value: value, ModRevision: o.mod, CreateRevision: o.create, Time: o.written}
			if !yield(r, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(store.Record{}, err)
		}
	}
}

// compareMade compares a log that was made with etcd, and makes sure that nothing has changed there meanwhile.
func (m *mover) compareMade(ctx context.Context, from *cluster, files disk.FS, done *Result) (err error) {
	made, err := m.openMade(ctx, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.close()) }()
	if err := m.compare(from.pages(ctx, ""), made.pages(ctx, ""), done, from.count); err != nil {
		return err
	}
	return from.unchanged(ctx)
}
