package disk

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

const memoryChunkBytes = 64 << 10

// Memory keeps files in memory, by chunks that are made when they are written. It is
// safe for concurrent use.
type Memory struct {
	// mu guards files.
	mu    sync.Mutex
	files map[string]*memoryFile
}

// NewMemory returns an empty directory in memory.
func NewMemory() *Memory { return &Memory{files: map[string]*memoryFile{}} }

// Copy returns a directory with the files as they are now. What is written while it is made
// is in it or not, file by file in the order of their names.
func (m *Memory) Copy() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := NewMemory()
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		all.files[name] = m.files[name].copy()
	}
	return all
}

// Create implements FS.
func (m *Memory) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &memoryFile{}
	m.files[name] = f
	return f, nil
}

// Open implements FS.
func (m *Memory) Open(name string) (File, int64, error) {
	m.mu.Lock()
	f, ok := m.files[name]
	m.mu.Unlock()
	if !ok {
		return nil, 0, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f, f.size, nil
}

// Rename implements FS.
func (m *Memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[from]
	if !ok {
		return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
	}
	delete(m.files, from)
	m.files[to] = f
	return nil
}

// Remove implements FS.
func (m *Memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.files[name]; !ok {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	delete(m.files, name)
	return nil
}

// Dir implements FS.
func (m *Memory) Dir() Dir { return memoryDir{m} }

type memoryDir struct{ fs *Memory }

func (memoryDir) Path() string { return "memory" }

func (d memoryDir) Names() ([]string, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	return slices.Sorted(maps.Keys(d.fs.files)), nil
}

func (memoryDir) Sync() error { return nil }

func (memoryDir) Close() error { return nil }

func (memoryDir) Lock() (Held, error) { return Unlocked{}, nil }

type memoryFile struct {
	// mu guards the rest. Bytes below size that were never written are zero.
	mu     sync.RWMutex
	chunks map[int64][]byte
	size   int64
}

func (f *memoryFile) copy() *memoryFile {
	f.mu.RLock()
	defer f.mu.RUnlock()
	same := &memoryFile{size: f.size, chunks: make(map[int64][]byte, len(f.chunks))}
	for i, chunk := range f.chunks {
		same.chunks[i] = slices.Clone(chunk)
	}
	return same
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if off >= f.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.size-off))
	for done := 0; done < n; {
		at := off + int64(done)
		part := p[done:min(n, done+int(memoryChunkBytes-at%memoryChunkBytes))]
		if chunk := f.chunks[at/memoryChunkBytes]; chunk != nil {
			copy(part, chunk[at%memoryChunkBytes:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chunks == nil {
		f.chunks = map[int64][]byte{}
	}
	for done := 0; done < len(p); {
		at := off + int64(done)
		chunk := f.chunks[at/memoryChunkBytes]
		if chunk == nil {
			chunk = make([]byte, memoryChunkBytes)
			f.chunks[at/memoryChunkBytes] = chunk
		}
		done += copy(chunk[at%memoryChunkBytes:], p[done:])
	}
	f.size = max(f.size, off+int64(len(p)))
	return len(p), nil
}

func (f *memoryFile) Sync() error { return nil }

func (f *memoryFile) Allocate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, chunk := range f.chunks {
		switch start := i * memoryChunkBytes; {
		case start >= size:
			delete(f.chunks, i)
		case start+memoryChunkBytes > size:
			clear(chunk[size-start:])
		}
	}
	f.size = size
	return nil
}

func (f *memoryFile) Close() error { return nil }
