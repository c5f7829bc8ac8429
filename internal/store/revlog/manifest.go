package revlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

func readManifest(fsys disk.FS) (format.Manifest, error) {
	f, size, err := fsys.Open(format.ManifestName)
	if err != nil {
		return format.Manifest{}, err
	}
	m, err := format.ReadManifest(f, size)
	return m, errors.Join(err, f.Close())
}

// errManifestUnknown says that it is not known which manifest is on disk now.
var errManifestUnknown = errors.New("the manifest may have been replaced or not")

// writeManifest replaces the manifest. If the error is errManifestUnknown, either
// the old or the new one may be found after a crash; otherwise the old one is.
func (l *Log) writeManifest(m format.Manifest) error {
	b, err := format.EncodeManifest(m)
	if err != nil {
		return err
	}
	f, err := l.fs.Create(format.ManifestTemp)
	if err != nil {
		return fmt.Errorf("create manifest: %w", err)
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if err := l.fs.Rename(format.ManifestTemp, format.ManifestName); err != nil {
		if disk.IsPassing(err) {
			return fmt.Errorf("replace manifest: %w", err)
		}
		return fmt.Errorf("%w: %w", errManifestUnknown, err)
	}
	if err := l.syncDir(); err != nil {
		return fmt.Errorf("%w: %w", errManifestUnknown, err)
	}
	return nil
}

// switchManifest is the only way in which the list of segments, the compaction
// mark and the floors change: edit turns the manifest of the present state into
// the next one, and once that is on disk, apply makes the same change in memory
// under mu. One switch is done at a time, so that the state that edit sees is the
// one on disk. If it returns an error apply was not called; after
// *store.PoisonedError either manifest may be on disk, otherwise the old one is.
func (l *Log) switchManifest(edit func(*format.Manifest), apply func()) error {
	l.manifestTurn <- struct{}{}
	defer func() { <-l.manifestTurn }()
	l.mu.Lock()
	m, poison := l.manifestLocked(), l.poison
	l.mu.Unlock()
	if poison != nil {
		return poison
	}
	edit(&m)
	if err := m.Check(); err != nil {
		return err
	}
	if err := l.writeManifest(m); err != nil {
		if errors.Is(err, errManifestUnknown) {
			return l.setPoison(err)
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	apply()
	return nil
}

// keepManifest writes the present state, with how far the log reaches.
func (l *Log) keepManifest() error { return l.switchManifest(func(*format.Manifest) {}, func() {}) }

const (
	// restAfter is the time without writes after which the manifest records the end of
	// the log, at most twice as long. Until then, damage to its last pages looks like a write that
	// was cut off; a frame that follows tells them apart too.
	restAfter = time.Second
	// restEvery bounds how often that is done: it costs two syncs.
	restEvery = 10 * time.Second
)

// noteEnd records the end of the log in the manifest while there are no writes, until
// ctx ends. It knows that of noted. It also looks whether the directory is still in its place.
func (l *Log) noteEnd(ctx context.Context, noted int64) {
	ticker := time.NewTicker(restAfter)
	defer ticker.Stop()
	seen, at := noted, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.checkPlace()
		head := l.head()
		if head == seen && head != noted && time.Since(at) >= restEvery && l.Durable() == nil {
			at = time.Now()
			if err := l.keepManifest(); err != nil {
				l.maintenanceFailed("note how far the log reaches", err)
			} else {
				noted = head
			}
		}
		seen = head
	}
}

// manifestLocked is the present state as a manifest.
func (l *Log) manifestLocked() format.Manifest {
	m := format.Manifest{
		UUID: l.ID(), Base: l.base, NextSegment: l.nextSegment,
		Compacted: l.compacted, Floors: map[string]format.Mark{}, Rest: l.index.Rest, Raised: l.raised,
	}
	for name, r := range l.index.Resources {
		if r.Floor.Revision > 0 {
			m.Floors[name] = r.Floor
		}
	}
	for _, s := range l.listed {
		m.Segments = append(m.Segments, s.entry())
	}
	return m
}

// isMissing says that a file is not there.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
