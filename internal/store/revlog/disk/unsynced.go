package disk

// NewUnsynced returns the directory dir as NewOS does, but does not wait until anything is on
// disk: what was written survives the end of the process, but not a failure of the machine.
// Nothing is reserved there, so that a directory takes only as much room as what it holds.
func NewUnsynced(dir string) (FS, error) {
	fs, err := newOS(dir, true)
	if err != nil {
		return nil, err
	}
	return unsynced{fs}, nil
}

type unsynced struct{ FS }

func (u unsynced) Create(name string) (File, error) {
	f, err := u.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (u unsynced) Open(name string) (File, int64, error) {
	f, size, err := u.FS.Open(name)
	if err != nil {
		return nil, 0, err
	}
	return unsyncedFile{f}, size, nil
}

func (u unsynced) Dir() Dir { return unsyncedDir{u.FS.Dir()} }

type unsyncedFile struct{ File }

func (unsyncedFile) Sync() error { return nil }

type unsyncedDir struct{ Dir }

func (unsyncedDir) Sync() error { return nil }
