package watchcache

import (
	"context"

	"github.com/gapless-io/gapless/kube"
)

// History is where a reader goes for what memory no longer holds. It is declared
// here and implemented over the store. It must be safe for concurrent use.
type History interface {
	// Entries returns, in order, changes of the resource with after < RV <= upTo.
	// It says how far it came: every such change with RV <= through was returned,
	// and none above. It returns at most limit entries (1 or more) and may return
	// fewer, to bound bytes for example, but without an error through is larger
	// than after. It returns *kube.ExpiredError when something in the range was
	// removed that is needed; what it returns besides an error counts up to through.
	Entries(ctx context.Context, after, upTo kube.ResourceVersion, limit int) (entries []*Entry, through kube.ResourceVersion, err error)

	// ObjectsAt returns the whole state of the resource at rv in the order of the
	// keys, or *kube.ExpiredError.
	ObjectsAt(ctx context.Context, rv kube.ResourceVersion) ([]*kube.Object, error)
}

// noHistory stands in where a cache has only its memory.
type noHistory struct{ cache *Cache }

func (h noHistory) Entries(_ context.Context, after, _ kube.ResourceVersion, _ int) ([]*Entry, kube.ResourceVersion, error) {
	return nil, after, h.expired(after, kube.ExpiredWatch)
}

func (h noHistory) ObjectsAt(_ context.Context, rv kube.ResourceVersion) ([]*kube.Object, error) {
	return nil, h.expired(rv, kube.ExpiredList)
}

func (h noHistory) expired(rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	return &kube.ExpiredError{Requested: rv, Oldest: h.cache.state.Load().log.gone, Kind: kind}
}
