// Package stray finds the files that a crash left in the directory of a log.
//
// It has one noun: a stray is the file of a segment that the manifest does not list, because it
// was not listed yet or is not listed any more.
package stray

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// NewerError says that a segment is newer than the manifest and has records: then the manifest is
// an old one.
type NewerError struct{ Name string }

func (e *NewerError) Error() string { return e.Name + " is newer than the " + format.ManifestName }

// IsSegment reports whether a file has a name as those of segments.
func IsSegment(name string) bool {
	return strings.HasSuffix(name, ".log") && (strings.HasPrefix(name, "seg-") || strings.HasPrefix(name, "base-"))
}

// Find returns the names of the strays. Errors: *NewerError, and those of the file system.
func Find(fs disk.FS, m format.Manifest) ([]string, error) {
	names, err := fs.Dir().Names()
	if err != nil {
		return nil, fmt.Errorf("list the log's directory: %w", err)
	}
	listed := map[string]bool{}
	for _, e := range m.Segments {
		listed[e.Name()] = true
	}
	var strays []string
	for _, name := range names {
		if !IsSegment(name) || listed[name] {
			continue
		}
		if err := check(fs, name, m); err != nil {
			return nil, err
		}
		strays = append(strays, name)
	}
	return strays, nil
}

// check refuses a segment that is newer than the manifest.
func check(fs disk.FS, name string, m format.Manifest) error {
	file, _, err := fs.Open(name)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	b := make([]byte, format.SegmentHeaderBytes+format.FrameHeaderBytes)
	n, err := file.ReadAt(b, 0)
	if err = errors.Join(err, file.Close()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read segment: %w", err)
	}
	if n < len(b) || string(b[:8]) != format.SegmentMagic {
		return nil
	}
	_, err = format.DecodeFrame(b[format.SegmentHeaderBytes:], format.SegmentSeed(b), format.SegmentHeaderBytes)
	id := format.SegmentHeaderID(b)
	if err == nil && id >= m.NextSegment && strings.HasPrefix(name, "seg-") {
		return &NewerError{name}
	}
	return nil
}
