package revlog

import (
	"errors"
	"fmt"
	"io"
)

// clearBytes is how many zeros are written at once.
const clearBytes = 1 << 20

// resetTail writes zeros behind the end of the active segment, as far as reach,
// which is that of one write or more, and syncs them: what a write left there that failed or was cut off
// must not look like something that was acknowledged, in a later crash. It does so
// whatever the file seems to hold, because the page cache may have zeros where an
// earlier sync of them failed. For the same reason rewrite, which lies before the
// end, is written again.
//
// An error that is not *store.PoisonedError leaves everything to be tried again.
func (l *Log) resetTail(rewrite []byte, reach int64) error {
	seg := l.active
	if len(rewrite) > 0 {
		if _, err := seg.file.WriteAt(rewrite, seg.end-int64(len(rewrite))); err != nil {
			return fmt.Errorf("write the last frame of %s again: %w", seg.name, err)
		}
	}
	zeros := make([]byte, min(clearBytes, seg.capacity-seg.end))
	for off, end := seg.end, min(seg.capacity, seg.end+reach); off < end; off += clearBytes {
		if _, err := seg.file.WriteAt(zeros[:min(clearBytes, end-off)], off); err != nil {
			return fmt.Errorf("clear the tail of %s: %w", seg.name, err)
		}
	}
	l.syncTurn <- struct{}{}
	defer func() { <-l.syncTurn }()
	if err := seg.file.Sync(); err != nil {
		return l.setPoison(fmt.Errorf("sync the tail of %s: %w", seg.name, err))
	}
	return nil
}

// rewrite writes what the active segment has from an offset on again: after a sync that failed it is in the page cache
// alone, which takes it for written.
func (l *Log) rewrite(from int64) error {
	seg, b := l.active, make([]byte, clearBytes)
	for off := from; off < seg.end; off += clearBytes {
		some := b[:min(clearBytes, seg.end-off)]
		_, err := seg.file.ReadAt(some, off)
		if err == nil || errors.Is(err, io.EOF) {
			_, err = seg.file.WriteAt(some, off)
		}
		if err != nil {
			return fmt.Errorf("write the end of %s again: %w", seg.name, err)
		}
	}
	return nil
}
