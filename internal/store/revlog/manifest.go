package revlog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

func readManifest(fsys disk.FS) (format.Manifest, error) {
	f, size, err := fsys.Open(format.ManifestName)
	if err != nil {
		return format.Manifest{}, err
	}
	if size > format.MaxManifestBytes {
		return format.Manifest{}, errors.Join(fmt.Errorf("%w: %d bytes", format.ErrBadManifest, size), f.Close())
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && (n < len(b) || !errors.Is(err, io.EOF)) {
		return format.Manifest{}, errors.Join(fmt.Errorf("read manifest: %w", err), f.Close())
	}
	m, err := format.DecodeManifest(b)
	return m, errors.Join(err, f.Close())
}

// errManifestUnknown says that it is not known which manifest is on disk now.
var errManifestUnknown = errors.New("the manifest may have been replaced or not")

// writeManifest replaces the manifest. If the error is errManifestUnknown, either
// the old or the new one may be found after a crash; otherwise the old one is.
func writeManifest(fsys disk.FS, m format.Manifest) error {
	b, err := format.EncodeManifest(m)
	if err != nil {
		return err
	}
	f, err := fsys.Create(format.ManifestTemp)
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
	if err := fsys.Rename(format.ManifestTemp, format.ManifestName); err != nil {
		return fmt.Errorf("%w: %w", errManifestUnknown, err)
	}
	if err := fsys.Dir().Sync(); err != nil {
		return fmt.Errorf("%w: %w", errManifestUnknown, err)
	}
	return nil
}

// switchManifest writes the present state to the manifest, as edit changes it.
// Only one runs at a time; it waits for another's disk writes and nothing else.
func (l *Log) switchManifest(edit func(*format.Manifest)) error {
	l.manifestTurn <- struct{}{}
	defer func() { <-l.manifestTurn }()
	l.mu.Lock()
	m := format.Manifest{
		UUID: hex.EncodeToString(l.uuid[:]), Base: l.base, NextSegment: l.nextSegment,
		Compacted: l.compacted, Floors: map[string]format.Mark{},
	}
	for name, r := range l.index.resources {
		if r.floor.Revision > 0 {
			m.Floors[name] = r.floor
		}
	}
	for _, s := range l.segments.ordered {
		m.Segments = append(m.Segments, s.entry())
	}
	l.mu.Unlock()
	edit(&m)
	if err := m.Check(); err != nil {
		return err
	}
	err := writeManifest(l.fs, m)
	if errors.Is(err, errManifestUnknown) {
		return l.setPoison(err)
	}
	return err
}

// isMissing says that a file is not there.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
