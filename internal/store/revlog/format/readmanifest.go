package format

import (
	"errors"
	"fmt"
	"io"
)

// ReadManifest reads a manifest of size bytes. Errors: ErrBadManifest, those of the file.
func ReadManifest(f io.ReaderAt, size int64) (Manifest, error) {
	if size > MaxManifestBytes {
		return Manifest{}, fmt.Errorf("%w: %d bytes", ErrBadManifest, size)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && (n < len(b) || !errors.Is(err, io.EOF)) {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	return DecodeManifest(b)
}
