package gapless

import "github.com/gapless-io/gapless/internal/store/revlog/disk"

// HoldSyncs makes each sync of a file wait for what wait waits for.
func (d *Disk) HoldSyncs(wait func()) { d.used = heldFS{d.used, wait} }

type heldFS struct {
	disk.FS
	wait func()
}

func (h heldFS) Create(name string) (disk.File, error) {
	f, err := h.FS.Create(name)
	return heldFile{f, h.wait}, err
}

func (h heldFS) Open(name string) (disk.File, int64, error) {
	f, size, err := h.FS.Open(name)
	return heldFile{f, h.wait}, size, err
}

type heldFile struct {
	disk.File
	wait func()
}

func (h heldFile) Sync() error {
	h.wait()
	return h.File.Sync()
}
