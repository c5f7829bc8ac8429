package registry

import (
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/convert"
)

// Reader serves lists and watches from caches. It is safe for concurrent use.
type Reader struct {
	of        func(kinds.Target) (*caches.Resource, error)
	live      *kinds.Live // nil in a mirror, as converter
	converter *convert.Converter
}

// NewMirrorReader returns the reader of a mirror. All resourceVersions that it takes and
// returns, besides those of objects and events, are positions in the mirror.
func NewMirrorReader(of func(kinds.Target) (*caches.Resource, error)) *Reader {
	return &Reader{of: of}
}
