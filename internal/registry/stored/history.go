package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

var _ watchcache.History = (*Resource)(nil)

// Entries implements watchcache.History.
func (r *Resource) Entries(ctx context.Context,
	q watchcache.Range,
) (entries []*watchcache.Entry, through kube.ResourceVersion, err error) {
	if err := r.lived(q.After, kube.ExpiredWatch); err != nil {
		return nil, q.After, err
	}
	p := r.part(q)
	at := place{fields: p.fields, after: int64(q.After), most: q.MaxEntries}
	finish, err := r.source.decoded.join(ctx, at)
	if err != nil {
		return nil, q.After, err
	}
	defer finish()
	whole := selectsByValue(q.Selection)
	if known := r.source.decoded.run(at, p.previous, q.UpTo); known != nil && whole {
		if err := r.kept(ctx, q.After, kube.ExpiredWatch); err != nil {
			return nil, q.After, err
		}
		return known.entries, known.through, nil
	}
	release, err := r.source.acquire(ctx)
	if err != nil {
		return nil, q.After, err
	}
	defer release()
	from := r.from(q)
	from.Known, from.Want, from.Buffer = p.isKnown, p.want, r.source.buffers.Get().(*store.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer r.source.buffers.Put(from.Buffer)
	feed, err := r.source.store.Changes(ctx, from)
	if err != nil {
		return nil, q.After, r.failed(err, q.After, kube.ExpiredWatch)
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	batch, err := feed.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil, q.UpTo, nil
	}
	if err != nil {
		return nil, q.After, r.failed(err, q.After, kube.ExpiredWatch)
	}
	entries, through, err = p.decode(batch)
	if err == nil && whole && len(batch.Holes) == 0 {
		r.source.decoded.putRun(at, run{entries: entries, through: through, previous: p.previous})
	}
	if _, compacted := errors.AsType[*store.CompactedError](err); compacted {
		err = r.failed(err, q.After, kube.ExpiredWatch)
	}
	return entries, through, err
}

// selectsByValue reports whether the store cannot tell by keys what is selected, so that it returns every change.
func selectsByValue(sel *watchcache.Selection) bool {
	return sel == nil || sel.Namespace == "" && sel.Name == ""
}

// from selects the changes of a range by namespace and name.
func (r *Resource) from(q watchcache.Range) store.From {
	f := store.From{
		Prefix: r.prefix, After: int64(q.After), Since: int64(q.Since), UpTo: int64(q.UpTo),
		Limit: q.MaxEntries, MaxBytes: q.MaxBytes,
	}
	switch sel := q.Selection; {
	case selectsByValue(sel):
	case sel.Namespace == "":
		f.Match = func(key string) bool { return strings.HasSuffix(key, "/"+sel.Name) }
	case sel.Name == "":
		f.Prefix += sel.Namespace + "/"
	default:
		f.Prefix, f.Key = "", r.Key(wire.Key{Namespace: sel.Namespace, Name: sel.Name})
	}
	return f
}

// lived returns *kube.ExpiredError for a revision before the resource's definition, or before a value that
// could not be read was replaced.
func (r *Resource) lived(rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	if from := r.WholeFrom(); rv < from {
		return Unread(rv, from, kind)
	}
	if born := kube.ResourceVersion(r.born); rv < born {
		return &kube.ExpiredError{Requested: rv, Oldest: born, Reason: kube.ReasonDefinition, Kind: kind}
	}
	return nil
}

// Unread is the error of a reader from before WholeFrom.
func Unread(rv, from kube.ResourceVersion, kind kube.ExpiredKind) error {
	return &kube.ExpiredError{Requested: rv, Oldest: from, Reason: kube.ReasonUnreadable, Kind: kind}
}

// Check implements watchcache.History: it asks for an empty range, which opens no feed.
func (r *Resource) Check(ctx context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	if err := r.lived(rv, kind); err != nil {
		return err
	}
	return r.kept(ctx, rv, kind)
}

// kept returns *kube.ExpiredError if changes after rv were removed.
func (r *Resource) kept(ctx context.Context, rv kube.ResourceVersion, kind kube.ExpiredKind) error {
	after := int64(min(rv, math.MaxInt64))
	feed, err := r.source.store.Changes(ctx, store.From{Prefix: r.prefix, After: after, UpTo: max(after, 1)})
	if err != nil {
		return r.failed(err, rv, kind)
	}
	return feed.Close()
}

func (r *Resource) failed(err error, rv kube.ResourceVersion, what kube.ExpiredKind) error {
	if e, is := errors.AsType[*store.CompactedError](err); is {
		return expired(e, what)
	}
	return fmt.Errorf("history of %s at %d: %w", r.GR, rv, Failure(err))
}
