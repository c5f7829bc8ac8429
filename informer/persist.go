package informer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer/internal/ref"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/warm"
)

// persistPeriod is how often the file is brought up to date without PersistEvery.
const persistPeriod = 5 * time.Second

// Persist keeps the cache in a file in a directory, so that the next program begins
// warm: what the cache held is there when Run begins, also without a server, and the
// watch goes on from the position in the file. If the server still has the history
// since, nothing is listed, and handlers hear of what happened meanwhile as if it
// had happened now; on 410 the state is read again and the exact difference told.
//
//	pods := informer.New(informer.For[*corev1.Pod](cfg, podGVR), informer.Persist("/var/cache/agent"))
//
// WaitSynced returns when the file has been loaded, although it can be old:
// Status.LastContact says whether the server was heard since. For handlers these
// objects are Initial.
//
// The file belongs to the source: API server and its CA, resource, namespaces,
// selectors and T; that of a source by From, to its name and T. One directory
// serves any number of informers, but each file one at a time, in all processes: who
// comes second starts cold, and takes the file over when it is free. It is not used
// when T has other fields than it had; what a Transform does nobody can compare, so
// change PersistTag with it. Directory and file are readable by their owner only, and
// nothing in them is encrypted: Secrets are there as plain as in memory.
//
// Changes are written every few seconds, at the end of Run what can be in 50 ms, and
// nothing is synced to the medium but a whole new file: a crash costs the newest changes,
// which the server tells again. Objects must come back from their JSON as they were:
// fields that are not exported, or left out by "-", are refused, unless the type has
// MarshalJSON and UnmarshalJSON. With Encode, objects are kept as the server sent them.
//
// Whatever goes wrong with the file is an incident (PersistFailed), and the informer
// goes on without it. With dir "" nothing is kept.
//
// A server that was restored from a backup while the program was down, and has written
// more since than it lost, cannot be told from the old one. Delete the directory then.
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

// PersistMaxAge does not use a file that was last brought up to date longer ago than d,
// for those to whom an old state is worse than none. Without it there is no bound.
func PersistMaxAge(d time.Duration) PersistOption {
	return func(p *persistence) { p.maxAge = d }
}

// PersistTag makes a file with another tag unusable: for what the informer cannot see,
// such as another Transform.
func PersistTag(tag string) PersistOption {
	return func(p *persistence) { p.tag = tag }
}

// PersistEvery brings the file up to date once per period d instead of every 5 s. The
// period bounds what a crash costs, and how long replaced objects stay in memory for it.
// A period that is not positive changes nothing.
func PersistEvery(d time.Duration) PersistOption {
	return func(p *persistence) {
		if d > 0 {
			p.period = d
		}
	}
}

// shelf is where an informer keeps its cache between programs. It belongs to Run.
type shelf[T Object] struct {
	*Informer[T]

	codec  warm.Codec[held[T]]
	writer *warm.Writer[held[T], *snapshot[T]]
}

// newShelf says what the objects are, and how they become JSON and objects again.
func (i *Informer[T]) newShelf() (*shelf[T], error) {
	shape, err := "as it came", error(nil)
	if i.source.hold == nil {
		shape, err = warm.Shape(reflect.TypeFor[T]())
	}
	id := i.source.identity
	from := id.objects
	if from == "" {
		from = i.source.name
	}
	file := warm.Identity{
		Name:   i.source.name,
		Source: fmt.Sprintf("%s of %q as %s", from, id.home, reflect.TypeFor[T]()),
		Shape:  fmt.Sprintf("%s, altered %d times, tag %q", shape, id.altered, i.opts.persist.tag),
	}
	s := &shelf[T]{Informer: i, codec: i.codec()}
	s.writer = warm.NewWriter(warm.Cache[held[T], *snapshot[T]]{Take: i.taken, All: everything[T], Changes: changesOf[T]},
		s.codec, warm.Settings{
			Open:   func() (*warm.File, error) { return warm.Open(warm.Dir(i.opts.persist.dir), file) },
			Period: i.opts.persist.period,
			Report: s.failed,
		})
	return s, err
}

// codec is how objects become JSON: what the server sent, where that is kept, and else
// what encoding/json makes of them, which JSON reverses.
func (i *Informer[T]) codec() warm.Codec[held[T]] {
	if i.source.hold != nil {
		return warm.Codec[held[T]]{
			Encode: func(dst []byte, o held[T]) ([]byte, error) { return o.Text(dst) },
			Decode: i.holds, Lends: i.source.lends,
		}
	}
	// Not protobuf, where the type has it: that loads no faster, and shares no strings.
	decode := SharedJSON[T]() // a Transform was applied before the file was written
	return warm.Codec[held[T]]{
		Encode: func(dst []byte, o held[T]) ([]byte, error) { return warm.JSON(dst, o.Get()) },
		Decode: func(raw []byte) (held[T], error) {
			o, err := decode(raw)
			return ref.Of(o), err
		},
		Lends: true,
	}
}

// taken is the newest state and what belongs to it in the file.
func (i *Informer[T]) taken() (s *snapshot[T], of warm.State, found bool) {
	s = i.current.Load()
	of = warm.State{Positions: map[string]string{"": s.rv}, Objects: s.tree.Len()}
	if s.positions != nil {
		of.Positions = map[string]string{}
		for n, p := range i.parts {
			of.Positions[p.namespace] = s.positions[n]
		}
	}
	// After the state was taken: what could not be read before it counts.
	for _, p := range i.parts {
		of.Unread += p.reflector.Status().Undecodable
	}
	return s, of, s.rv != ""
}

func everything[T Object](s *snapshot[T]) iter.Seq2[Key, held[T]] {
	return func(yield func(Key, held[T]) bool) {
		s.tree.Scan(func(e state.Entry[held[T]]) bool { return yield(e.Key, e.Object) })
	}
}

func changesOf[T Object](newer, older *snapshot[T]) iter.Seq2[Key, held[T]] {
	return func(yield func(Key, held[T]) bool) {
		state.Diff(older.tree, newer.tree, newer.rv, func(c change[T]) bool { return yield(c.Key, c.New) })
	}
}

// failed reports what went wrong with the file.
func (s *shelf[T]) failed(err error) {
	s.report(Incident{Kind: PersistFailed, At: time.Now(), Err: err, RV: s.ResourceVersion()})
}

// persist begins with what is in the file and keeps it up to date until finish is
// called, when all parts have stopped.
func (i *Informer[T]) persist(ctx context.Context) (finish func()) {
	if i.opts.persist.dir == "" {
		return func() {}
	}
	if i.shelf == nil {
		s, err := i.newShelf()
		if err != nil {
			s.failed(err)
			return func() {}
		}
		i.shelf = s
	}
	s := i.shelf
	if file := s.writer.Begin(); file != nil && file.Holds() && i.ResourceVersion() == "" {
		s.load(ctx, file)
	}
	ctx, stop := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { s.writer.Run(ctx) }) // ends with finish
	return func() {
		stop()
		writing.Wait()
		s.writer.Finish(ctx)
	}
}

// load makes the cache what the file holds.
func (s *shelf[T]) load(ctx context.Context, file *warm.File) {
	of := file.State()
	if age := s.opts.persist.maxAge; age > 0 && time.Since(of.At) > age {
		return
	}
	positions := make([]string, len(s.parts))
	for n, p := range s.parts {
		if positions[n] = of.Positions[p.namespace]; positions[n] == "" {
			s.failed(fmt.Errorf("load the warm start of %s: it has no position of namespace %q", s.source.name, p.namespace))
			return
		}
	}
	objects, err := warm.Load(ctx, file, s.codec)
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
			s.failed(err)
		}
		return
	}
	if of.Unread > 0 { // a watch from there would never bring them
		for _, p := range s.parts {
			p.reflector.Reread()
		}
	}
	s.restore(slices.Collect(maps.Values(objects)), positions)
	s.writer.Loaded()
}

// homeOf says where a server is, and which: addresses are the same in many clusters, but
// each has its own CA. Who asks does not count: tokens change from one start to the next.
func homeOf(cfg *rest.Config) string {
	if cfg == nil {
		return ""
	}
	ca := cfg.CAData
	if len(ca) == 0 && cfg.CAFile != "" {
		ca, _ = os.ReadFile(cfg.CAFile) // without it there will be no connection
	}
	home := cfg.Host + cfg.APIPath
	if len(ca) > 0 {
		sum := sha256.Sum256(ca)
		home += " with CA " + hex.EncodeToString(sum[:8])
	}
	return home
}
