// Package kept keeps what a relay knows of the API server that it stands in front of, upstream, in
// files, so that a relay that starts while upstream is away knows it too.
//
// A [File] holds one value: upstream's CA of client certificates, its resources, the
// documents of discovery, or decisions about callers. A [Source] is the upstream that the values are
// of: those of another one are not used.
//
// A file is replaced as a whole, readable by its owner only. One that is damaged, of another version,
// or of another upstream is no error that ends a relay: upstream is asked, as if there were none.
package kept

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gapless-io/gapless/internal/durable"
)

// Source is an API server, by its address and what it is trusted by.
type Source [sha256.Size]byte

// SourceOf returns the source of an address and of the CA by which it is trusted.
func SourceOf(address string, ca []byte) Source {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", address, ca))
}

// File is a file that holds one value. The zero value keeps nothing. It is used by one goroutine at a
// time.
type File struct {
	path, kind string
	of         Source
}

// In returns the file for a kind of values, such as "decisions", in a directory, which Save makes.
func In(dir, kind string, of Source) File {
	return File{path: filepath.Join(dir, kind), kind: kind, of: of}
}

// Keeps reports whether there is a file at all: it is not the zero value.
func (f File) Keeps() bool { return f.path != "" }

// ErrUnusable says that there is a file that cannot be used, with why.
var ErrUnusable = errors.New("what was kept of upstream is not used")

// version is that of the form of all files.
const version = "1"

// Save replaces the value. It has no effect on the zero value.
func (f File) Save(value []byte) error {
	if !f.Keeps() {
		return nil
	}
	err := durable.MkdirAll(filepath.Dir(f.path))
	if err == nil {
		err = durable.WriteFile(f.path, f.encode(value))
	}
	if err != nil {
		return fmt.Errorf("keep upstream's %s: %w", f.kind, err)
	}
	return nil
}

// Load returns the value; nil: there is none. Errors: ErrUnusable.
func (f File) Load() ([]byte, error) {
	if !f.Keeps() {
		return nil, nil
	}
	content, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		var value []byte
		if value, err = f.decode(content); err == nil {
			return value, nil
		}
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrUnusable, f.path, err)
}

// Unusable returns the error for a value that Load has returned and that cannot be decoded.
func (f File) Unusable(err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnusable, f.path, err)
}

func (f File) encode(value []byte) []byte {
	head := fmt.Appendf(nil, "gapless-relay %s %s %x %08x %d\n", f.kind, version, f.of,
		crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)), len(value))
	return append(head, value...)
}

func (f File) decode(content []byte) ([]byte, error) {
	head, value, found := bytes.Cut(content, []byte("\n"))
	words := bytes.Split(head, []byte(" "))
	const parts = 6
	switch {
	case !found || len(words) != parts || string(words[0]) != "gapless-relay" || string(words[1]) != f.kind:
		return nil, errors.New("it is damaged: it does not begin as such a file does")
	case string(words[2]) != version:
		return nil, fmt.Errorf("it has version %q, and this program writes %s", words[2], version)
	case string(words[3]) != hex.EncodeToString(f.of[:]):
		return nil, errors.New("it is of another API server")
	}
	var sum uint32
	var length int
	if _, err := fmt.Sscanf(string(words[4])+" "+string(words[5]), "%x %d", &sum, &length); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if length != len(value) || sum != crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)) {
		return nil, fmt.Errorf("it is damaged: %d bytes with another checksum, of %d", len(value), length)
	}
	return value, nil
}
