package disk

import (
	"os"
	"sync"
)

// fillBytes is how far an osFile writes zeros ahead. A smaller number means more commits of
// the file system's journal, a larger one a longer sync each time: at 12 KB a sync, one of
// 20 pays for the others.
const fillBytes = 256 << 10

// zeros is what is written ahead.
//
//nolint:gochecknoglobals // a constant that Go cannot have
var zeros [fillBytes]byte

// osFile is a file of the operating system. It writes zeros ahead of its writer into what
// Allocate has reserved. Reserved blocks that were never written are marked in the metadata of
// ext4 and XFS, and to write into them changes the mark: each sync would commit the journal
// as well, which takes more than twice as long as to write the data alone. With the zeros
// that happens once in fillBytes. A reader sees no difference: what is reserved is zero.
type osFile struct {
	*os.File

	sparse bool // Allocate reserves nothing

	// mu guards filled and reserved.
	mu sync.Mutex
	// filled is where zeros were written up to, or data: there is none after it. reserved is
	// the end of what Allocate has reserved; nothing is written ahead after it.
	filled, reserved int64
}

func (f *osFile) Sync() error { return syncData(f.File) }

// WriteAt implements io.WriterAt.
func (f *osFile) WriteAt(b []byte, off int64) (int, error) {
	f.fill(off + int64(len(b)))
	return f.File.WriteAt(b, off)
}

// fill writes zeros after end, to which the caller is about to write, unless there are some. It
// is no failure that it cannot: if the file cannot be written, then the caller's write fails too.
func (f *osFile) fill(end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if end <= f.filled || f.filled >= f.reserved {
		return
	}
	f.filled = min(end+fillBytes, f.reserved)
	if end >= f.filled {
		return
	}
	if _, err := f.File.WriteAt(zeros[:f.filled-end], end); err != nil {
		f.reserved = 0
	}
}

func (f *osFile) Allocate(size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := info.Size()
	if was > f.reserved {
		f.filled = was // it may have data up to there
	}
	f.reserved = 0
	if size > was && !f.sparse {
		reserved, err := reserve(f.File, was, size-was)
		if err != nil {
			return err
		}
		if reserved {
			f.reserved = size
		}
	}
	f.filled = min(f.filled, size)
	return f.Truncate(size)
}
