package seam

import "github.com/gapless-io/gapless/internal/store/revlog/disk"

// Disk is a disk in memory, for tests of what a server does when it starts again: what the
// server of one Options.Disk has written is there for the next one. It is used by one server
// at a time.
type Disk struct {
	files *disk.Memory
	used  disk.FS // files, or what a test has put in front of them
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return newDisk(disk.NewMemory()) }

func newDisk(files *disk.Memory) *Disk { return &Disk{files: files, used: files} }

// Copy returns a disk with what was written until now, also while a server writes: what a
// server that is killed at this moment leaves behind.
func (d *Disk) Copy() *Disk { return newDisk(d.files.Copy()) }

// FS returns the files, for the log.
func (d *Disk) FS() disk.FS { return d.used }

// PutInFront puts something in front of the files, such as a disk that hangs.
func (d *Disk) PutInFront(front func(disk.FS) disk.FS) { d.used = front(d.used) }
