package revlog

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// CopyTo copies the log, as the end of the process at this moment would leave it, into a
// directory without one. Meanwhile writes wait, and so does compaction. It is for tests that
// go back to an earlier state. Before Run it waits for Run.
func (l *Log) CopyTo(ctx context.Context, to disk.FS) error {
	release, err := l.takeCompaction(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := l.betweenGroups(ctx, func() error { return l.copyFiles(to) }); err != nil {
		return fmt.Errorf("copy the log to %s: %w", to.Dir().Path(), err)
	}
	return nil
}

// copyFiles is called by the sequencer, during the turn of compaction: nothing else changes
// the segments.
func (l *Log) copyFiles(to disk.FS) error {
	l.manifestTurn <- struct{}{}
	defer func() { <-l.manifestTurn }()
	l.mu.Lock()
	listed := l.listed
	l.mu.Unlock()
	for _, s := range listed {
		size := s.end
		if !s.sealed {
			size = s.capacity
		}
		if err := copyFile(to, s.name, io.NewSectionReader(s.file, 0, s.end), size); err != nil {
			return err
		}
	}
	manifest, size, err := l.fs.Open(format.ManifestName)
	if err != nil {
		return err
	}
	return errors.Join(copyFile(to, format.ManifestName, io.NewSectionReader(manifest, 0, size), size), manifest.Close())
}

// copyFile makes a file of a size that begins with what from has.
func copyFile(to disk.FS, name string, from io.Reader, size int64) error {
	f, err := to.Create(name)
	if err != nil {
		return err
	}
	err = f.Allocate(size)
	if err == nil {
		_, err = io.Copy(io.NewOffsetWriter(f, 0), from)
	}
	return errors.Join(err, f.Close())
}
