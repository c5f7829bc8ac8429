package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/persist"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// File says in which snapshot file a cache is kept.
type File[T handle.Object] struct {
	// Dir is the directory, and Identity what the file must be of.
	Dir      string
	Identity persist.Identity
	Codec    persist.Codec[handle.Handle[T]]
	// MaxAge is how old a file may be to be loaded; 0: any age.
	MaxAge time.Duration
	// Period is how often the file is brought up to date.
	Period time.Duration
}

// TextCodec writes down the text that objects are held as, and decodes it with hold.
// lends says that hold keeps none of the text and may be called concurrently.
func TextCodec[T handle.Object](hold func([]byte) (handle.Handle[T], error), lends bool) persist.Codec[handle.Handle[T]] {
	return persist.Codec[handle.Handle[T]]{
		Encode: func(dst []byte, o handle.Handle[T]) ([]byte, error) { return o.Text(dst) },
		Decode: hold, Lends: lends,
	}
}

// JSONCodec writes down objects as encoding/json does, and decodes them with decode,
// which keeps none of the JSON and may be called concurrently. It is used also for
// objects that came as protobuf, which would load no faster and share no strings.
func JSONCodec[T handle.Object](decode func([]byte) (T, error)) persist.Codec[handle.Handle[T]] {
	return persist.Codec[handle.Handle[T]]{
		Encode: func(dst []byte, o handle.Handle[T]) ([]byte, error) { return persist.JSON(dst, o.Get()) },
		Decode: func(raw []byte) (handle.Handle[T], error) {
			o, err := decode(raw)
			return handle.Of(o), err
		},
		Lends: true,
	}
}

// file is the snapshot file of a cache. It belongs to Run.
type file[T handle.Object] struct {
	*Cache[T]

	is     File[T]
	writer *persist.Writer[handle.Handle[T], *Snapshot[T]]
}

// Persist loads the file, if the cache is empty, and keeps it up to date until finish
// is called, when Reflect has returned. What goes wrong is an incident.
func (c *Cache[T]) Persist(ctx context.Context, is File[T]) (finish func()) {
	if c.file == nil {
		c.file = &file[T]{Cache: c, is: is}
		c.file.writer = persist.NewWriter(
			persist.Cache[handle.Handle[T], *Snapshot[T]]{Take: c.taken, All: handles[T], Changes: changes[T]}, is.Codec,
			persist.Settings{
				Open:   func() (*persist.File, error) { return persist.Open(persist.Dir(is.Dir), is.Identity) },
				Period: is.Period,
				Report: c.persistFailed,
			})
	}
	f := c.file
	if opened := f.writer.Begin(); opened != nil && opened.Holds() && c.current.Load().RV == "" {
		f.load(ctx, opened)
	}
	ctx, stop := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { f.writer.Run(ctx) }) // ends with finish
	return func() {
		stop()
		writing.Wait()
		f.writer.Finish(ctx)
	}
}

func (c *Cache[T]) persistFailed(err error) {
	c.hooks.Report(incident.Incident{Kind: incident.PersistFailed, Err: err, RV: c.current.Load().RV})
}

// load makes the cache what the file holds.
func (f *file[T]) load(ctx context.Context, opened *persist.File) {
	of := opened.State()
	if age := f.is.MaxAge; age > 0 && time.Since(of.At) > age {
		return
	}
	positions := make([]string, len(f.streams))
	for n, s := range f.streams {
		if positions[n] = of.Positions[s.namespace]; positions[n] == "" {
			f.persistFailed(fmt.Errorf("load the snapshot file of %s: it has no position of namespace %q",
				f.is.Identity.Name, s.namespace))
			return
		}
	}
	objects, err := persist.Load(ctx, opened, f.is.Codec)
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
			f.persistFailed(err)
		}
		return
	}
	if of.Unread > 0 { // a watch from there would never bring them
		for _, s := range f.streams {
			s.reflector.Reread()
		}
	}
	f.restore(slices.Collect(maps.Values(objects)), positions)
	f.writer.Loaded()
}

// Restore makes the cache a state that another one had at rv. With reread, Run reads the
// state again before it watches. It must be called before Run, once.
func (c *Cache[T]) Restore(objects []handle.Handle[T], rv string, reread bool) {
	positions := make([]string, len(c.streams))
	for n, s := range c.streams {
		positions[n] = rv
		if reread {
			s.reflector.Reread()
		}
	}
	c.restore(objects, positions)
}

// restore makes the cache a state that another cache of the same source left behind,
// as if this one had read it: its objects, and the position of each stream. It is
// called before Reflect.
func (c *Cache[T]) restore(objects []handle.Handle[T], positions []string) {
	trees := make([]state.Tree[T], len(c.streams))
	place := map[string]int{}
	for n, s := range c.streams {
		trees[n] = state.NewTree[T]()
		place[s.namespace] = n
	}
	all := make([][]state.Change[T], len(c.streams))
	for _, object := range objects {
		key := handle.KeyOf(object)
		n := place[key.Namespace] // 0 if there is one stream
		trees[n].Put(object)
		all[n] = append(all[n], state.Change[T]{Key: key, New: object, RV: object.GetResourceVersion()})
	}
	for n, s := range c.streams {
		s.reflector.Restore(trees[n], positions[n])
		s.Publish(all[n], positions[n], reflector.Whole)
	}
}

// taken is the newest state and what belongs to it in the file.
func (c *Cache[T]) taken() (s *Snapshot[T], of persist.State, found bool) {
	s = c.current.Load()
	of = persist.State{Positions: map[string]string{"": s.RV}, Objects: s.Tree.Len()}
	if s.positions != nil {
		of.Positions = map[string]string{}
		for n, stream := range c.streams {
			of.Positions[stream.namespace] = s.positions[n]
		}
	}
	// After the state was taken: what could not be read before it counts.
	for _, stream := range c.streams {
		of.Unread += stream.reflector.Status().Undecodable
	}
	return s, of, s.RV != ""
}

func handles[T handle.Object](s *Snapshot[T]) iter.Seq2[handle.Key, handle.Handle[T]] {
	return func(yield func(handle.Key, handle.Handle[T]) bool) {
		s.Tree.Scan(func(e state.Entry[T]) bool { return yield(e.Key, e.Object) })
	}
}

func changes[T handle.Object](newer, older *Snapshot[T]) iter.Seq2[handle.Key, handle.Handle[T]] {
	return func(yield func(handle.Key, handle.Handle[T]) bool) {
		newer.Changes(older, func(c state.Change[T]) bool { return yield(c.Key, c.New) })
	}
}
