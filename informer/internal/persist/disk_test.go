package persist_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gapless-io/gapless/informer/internal/persist"
)

// memory is a Disk in memory that fails on request.
type memory struct {
	// mu guards what follows, while writers run.
	mu    sync.Mutex
	files map[string][]byte
	locks map[string]bool
	// room is how many more bytes can be written; negative: any number.
	room int
	// broken are methods that fail.
	broken map[string]bool
	// synced is what each file was when it was synced or took its name.
	synced map[string][]byte
}

func newMemory() *memory {
	return &memory{
		files: map[string][]byte{}, locks: map[string]bool{}, room: -1, broken: map[string]bool{}, synced: map[string][]byte{},
	}
}

// clone is the disk as another program finds it, with nothing broken.
func (m *memory) clone() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemory()
	maps.Copy(c.files, m.files)
	for name, b := range c.files {
		c.files[name] = bytes.Clone(b)
	}
	return c
}

// leave sets how many more bytes can be written.
func (m *memory) leave(room int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = room
}

// only is the one file that is there, whatever its name.
func (m *memory) only(t testing.TB) (name string, b []byte) {
	t.Helper()
	for n, content := range m.files {
		if strings.HasSuffix(n, ".warm") {
			name, b = n, content
		}
	}
	if name == "" {
		t.Fatalf("there is no file")
	}
	return name, b
}

var errBroken = &os.PathError{Op: "test", Path: "memory", Err: syscall.EIO}

func (m *memory) fails(what string) error {
	if m.broken[what] {
		return errBroken
	}
	return nil
}

func (m *memory) Open(name string) (persist.Handle, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails("open"); err != nil {
		return nil, 0, err
	}
	if _, is := m.files[name]; !is {
		m.files[name] = nil
	}
	return &openFile{m: m, name: name}, int64(len(m.files[name])), nil
}

func (m *memory) Replace(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails("replace"); err != nil {
		return err
	}
	m.files[to] = m.files[from]
	m.synced[to] = bytes.Clone(m.synced[from])
	delete(m.files, from)
	return nil
}

func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, name)
	return m.fails("remove")
}

type unlock func()

func (u unlock) Close() error {
	u()
	return nil
}

func (m *memory) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, persist.ErrLocked
	}
	m.locks[name] = true
	return unlock(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locks, name)
	}), m.fails("lock")
}

type openFile struct {
	m    *memory
	name string
}

func (h *openFile) ReadAt(p []byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.m.fails("read"); err != nil {
		return 0, err
	}
	b := h.m.files[h.name]
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *openFile) WriteAt(p []byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	n := len(p)
	if h.m.room >= 0 {
		n = min(n, h.m.room)
		h.m.room -= n
	}
	b := h.m.files[h.name]
	if need := int(off) + n; need > len(b) {
		b = append(b, make([]byte, need-len(b))...)
	}
	copy(b[off:], p[:n])
	h.m.files[h.name] = b
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, h.m.fails("write")
}

func (h *openFile) Truncate(size int64) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.m.fails("truncate"); err != nil {
		return err
	}
	h.m.files[h.name] = bytes.Clone(h.m.files[h.name][:size])
	return nil
}

func (h *openFile) Sync() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.m.synced[h.name] = bytes.Clone(h.m.files[h.name])
	return h.m.fails("sync")
}

func (h *openFile) Close() error { return nil }

func TestFilesHaveOwnerOnlyPermissions(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("permissions of another kind")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := open(t, persist.Dir(dir))
	commit(t, f, map[string]int{"a": 1})
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	check := func(path string, want os.FileMode) {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatalf("look at a file: %v", err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has permissions %o, want %o", path, got, want)
		}
	}
	check(dir, 0o700)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("list a directory: %v", err)
	}
	for _, e := range entries {
		check(filepath.Join(dir, e.Name()), 0o600)
	}
	if len(entries) != 2 {
		t.Errorf("%d files, want the log and its lock", len(entries))
	}
}

func TestAFileIsLockedByOneInformer(t *testing.T) {
	disk := persist.Dir(t.TempDir())
	f := open(t, disk)
	if _, err := persist.Open(disk, identity()); !errors.Is(err, persist.ErrLocked) || !strings.Contains(err.Error(), "pid ") {
		t.Errorf("a second one gets %v, want ErrLocked and who has it", err)
	}
	other := identity()
	other.Source = "elsewhere"
	if g, err := persist.Open(disk, other); err != nil {
		t.Errorf("open the snapshot file: %v", err)
	} else if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := open(t, disk).Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestAPathThatIsNoDirectoryIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if _, err := persist.Open(persist.Dir(path), identity()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file as directory gives %v", err)
	}
	for _, what := range []string{"lock", "open", "remove"} {
		disk := newMemory()
		disk.broken[what] = true
		if _, err := persist.Open(disk, identity()); !errors.Is(err, syscall.EIO) {
			t.Errorf("a disk that cannot %s gives %v", what, err)
		}
	}
}
