package informer

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/persist"
)

// persistPeriod is how often the snapshot file is brought up to date without
// PersistEvery.
const persistPeriod = 5 * time.Second

// Persist keeps the cache in a snapshot file in a directory, so that the next start of
// the program continues from it: Run begins with the objects in the file, also without a
// server, and watches from the position in the file. If the server still has the history
// since then, nothing is listed, and handlers get the changes since then as usual. On
// 410 the state is read again, and handlers get the exact difference.
//
//	pods := informer.New(informer.For[*corev1.Pod](cfg, podGVR), informer.Persist("/var/cache/agent"))
//
// WaitSynced returns when the file has been loaded, although it can be old:
// Status.LastContact says whether the server has answered since. For handlers these
// objects are Initial.
//
// The file belongs to the source: API server and its CA, resource, namespaces,
// selectors and T; for a source by From, to its name and T. One directory serves any
// number of informers, but only one informer of all processes uses a file at a time: a
// second one starts without it, and uses it when it is free. The file is not used if the
// fields of T have changed. A change of a Transform cannot be detected, so change
// PersistTag with it. Only the owner can read the directory and the file. Nothing in them
// is encrypted: Secrets are there in plain text, as in memory.
//
// Changes are written every few seconds, and at the end of Run for up to 50 ms. Only a
// whole new file is synced to the medium: a crash loses the newest changes, which the
// server sends again. Objects must survive encoding to JSON and back: types with fields
// that are unexported or excluded by "-" are refused, unless they have MarshalJSON and
// UnmarshalJSON. With Encode, objects are kept as the server sent them.
//
// A problem with the file is an incident (PersistFailed), and the informer continues
// without it. With dir "" nothing is kept.
//
// If a server is restored from a backup while the program is down, and then writes more
// than it lost, it can be mistaken for the old one: only one object and the server's
// version are compared. Delete the directory in that case.
func Persist(dir string, opts ...PersistOption) Option {
	return func(o *options) {
		o.persist = persistence{dir: dir, period: persistPeriod}
		for _, opt := range opts {
			opt(&o.persist)
		}
	}
}

// PersistOption says how Persist works.
type PersistOption func(*persistence)

type persistence struct {
	dir, tag string
	maxAge   time.Duration // 0: any
	period   time.Duration
}

// PersistMaxAge ignores a file that was last brought up to date longer ago than d, for
// programs for which an old state is worse than none. Without it, any age is accepted.
func PersistMaxAge(d time.Duration) PersistOption {
	return func(p *persistence) { p.maxAge = d }
}

// PersistTag ignores a file that was written with another tag. Change it with what the
// informer cannot compare, such as a Transform.
func PersistTag(tag string) PersistOption {
	return func(p *persistence) { p.tag = tag }
}

// PersistEvery brings the file up to date once per period d instead of every 5 s. The
// period bounds what a crash loses, and how long replaced objects stay in memory. A
// period that is not positive has no effect.
func PersistEvery(d time.Duration) PersistOption {
	return func(p *persistence) {
		if d > 0 {
			p.period = d
		}
	}
}

// persist loads the snapshot file and keeps it up to date until finish is called.
func (i *Informer[T]) persist(ctx context.Context) (finish func()) {
	p := i.opts.persist
	if p.dir == "" {
		return func() {}
	}
	shape, err := "as it came", error(nil)
	if i.source.hold == nil {
		shape, err = persist.Shape(reflect.TypeFor[T]())
	}
	if err != nil {
		i.report(incident.Incident{Kind: incident.PersistFailed, Err: err, RV: i.ResourceVersion()})
		return func() {}
	}
	id := i.source.identity
	from := id.objects
	if from == "" {
		from = i.source.name
	}
	return i.cache.Persist(ctx, cache.File[T]{
		Dir: p.dir, MaxAge: p.maxAge, Period: p.period, Codec: i.codec(),
		Identity: persist.Identity{
			Name:   i.source.name,
			Source: fmt.Sprintf("%s of %q as %s", from, id.home, reflect.TypeFor[T]()),
			Shape:  fmt.Sprintf("%s, altered %d times, tag %q", shape, id.altered, p.tag),
		},
	})
}

// codec encodes objects for the snapshot file: as the server sent them if that was kept,
// and else as JSON. A Transform is not applied again.
func (i *Informer[T]) codec() persist.Codec[handle.Handle[T]] {
	if i.source.hold != nil {
		return cache.TextCodec(i.source.holds(), i.source.lends)
	}
	return cache.JSONCodec(SharedJSON[T]())
}
