package revlog

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// findStrays returns the names of the files that a crash left in the directory: of segments that
// the manifest does not list yet, or does not list any more.
func (l *Log) findStrays(m format.Manifest) ([]string, error) {
	names, err := l.fs.Dir().Names()
	if err != nil {
		return nil, fmt.Errorf("list the log's directory: %w", err)
	}
	listed := map[string]bool{}
	for _, e := range m.Segments {
		listed[e.Name()] = true
	}
	var strays []string
	for _, name := range names {
		if !format.IsSegmentName(name) || listed[name] {
			continue
		}
		if err := l.checkStray(name, m); err != nil {
			return nil, err
		}
		strays = append(strays, name)
	}
	return strays, nil
}

// checkStray refuses a segment that is newer than the manifest and has records: then the
// manifest is an old one.
func (l *Log) checkStray(name string, m format.Manifest) error {
	file, _, err := l.fs.Open(name)
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
		return l.corrupt(name, -1, "it is newer than the "+format.ManifestName)
	}
	return nil
}
