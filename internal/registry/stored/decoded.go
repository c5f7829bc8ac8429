package stored

import (
	"context"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	// decodedBytes bounds the entries of history that are kept for other readers, for all
	// resources together. The objects before the changes, which selectors need, are mostly
	// those of other entries and do not count; they can take as much again. A quarter of the
	// entries was too little for 64 watches that begin 100 000 changes of 1.4 KB back at
	// once: they drifted apart, and each decoded for itself (bench, resume-select-label).
	// entryBytes is what an entry takes beside the bytes of its object.
	decodedBytes = 32 << 20
	entryBytes   = 512
	// keepDecoded is how long after the last read they are kept.
	keepDecoded = 10 * time.Second
)

// decoded are the entries of history that were decoded last. Watches that resume from
// about the same revision, after a restart for example, share them: each change is read
// and decoded once, as long as the watches are less than decodedBytes apart. Which changes
// there are is not known here: every reader asks the store, which also says what expired.
type decoded struct {
	// mu guards all fields.
	mu      sync.Mutex
	entries map[written]kept
	order   []written // the keys of entries, oldest first
	bytes   int64
	reading map[place]chan struct{}
	runs    map[place]*run
	ran     []place // the keys of runs, oldest first
	running int64   // bytes of the entries of runs
	used    time.Time
	ticking bool // expire will be called
}

// written is a change: of an object at a revision, of which there can be several.
type written struct {
	revision int64
	key      wire.Key
}

// kept is an entry whose objects have certain selectable fields. The pointer stands for
// the resource too: each has its own.
type kept struct {
	*watchcache.Entry

	fields *[]wire.FieldPath
}

func (k kept) bytes() int64 { return int64(k.Object.Size()) + entryBytes }

// get returns the entry of a change, which may lack the object before, or nil.
func (d *decoded) get(w written, fields *[]wire.FieldPath) *watchcache.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.entries[w]; k.fields == fields {
		return k.Entry
	}
	return nil
}

// object returns the object that a change wrote, or nil.
func (d *decoded) object(w written, fields *[]wire.FieldPath) *wire.Object {
	if e := d.get(w, fields); e != nil && !e.Deleted {
		return e.Object
	}
	return nil
}

// join waits if another reader is reading at the same place, so that its entries are found.
// Otherwise others wait until finish is called. It returns ctx's cause when ctx ends first.
func (d *decoded) join(ctx context.Context, p place) (finish func(), err error) {
	d.mu.Lock()
	first := d.reading[p]
	if first == nil {
		done := make(chan struct{})
		d.reading[p] = done
		d.mu.Unlock()
		return func() {
			d.mu.Lock()
			delete(d.reading, p)
			d.mu.Unlock()
			close(done)
		}, nil
	}
	d.mu.Unlock()
	select {
	case <-first:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// place is where a reader reads, and how many entries at most.
type place struct {
	fields *[]wire.FieldPath
	after  int64
	most   int
}

// run is all entries of a resource after a place up to through, outside of holes: what one read has returned. Readers that
// are at the same place get it as a whole, which costs a sixth of looking for each of its entries.
type run struct {
	entries  []*watchcache.Entry
	through  kube.ResourceVersion
	previous bool // the entries have the objects before
	bytes    int64
}

// run returns the run at a place, nil if none is known that ends at or before upTo, and has the objects before if they are
// required. The caller asks whether its changes are still kept.
func (d *decoded) run(at place, previous bool, upTo kube.ResourceVersion) *run {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[at]
	if r == nil || r.through > upTo || previous && !r.previous {
		return nil
	}
	d.used = time.Now()
	return r
}

// putRun keeps a run that has entries, and drops the oldest when there are too many: they are bounded as the entries are,
// most of which they share.
func (d *decoded) putRun(at place, r run) {
	if len(r.entries) == 0 {
		return // it is as soon read
	}
	for _, e := range r.entries {
		r.bytes += kept{Entry: e}.bytes()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if was := d.runs[at]; was != nil {
		d.running -= was.bytes
	} else {
		d.ran = append(d.ran, at)
	}
	d.runs[at] = &r
	d.running += r.bytes
	for d.running > decodedBytes {
		d.running -= d.runs[d.ran[0]].bytes
		delete(d.runs, d.ran[0])
		d.ran = d.ran[1:]
	}
	d.expiresLocked()
}

// expiresLocked makes expire be called when anything is kept.
func (d *decoded) expiresLocked() {
	d.used = time.Now()
	if !d.ticking && len(d.entries)+len(d.runs) > 0 {
		d.ticking = true
		time.AfterFunc(keepDecoded, d.expire)
	}
}

// put keeps entries, and drops the oldest when there are too many.
func (d *decoded) put(entries []*watchcache.Entry, fields *[]wire.FieldPath) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		w, k := written{int64(e.RV), e.Object.Key()}, kept{e, fields}
		if was, is := d.entries[w]; is {
			d.bytes -= was.bytes()
		} else {
			d.order = append(d.order, w)
		}
		d.entries[w] = k
		d.bytes += k.bytes()
	}
	for d.bytes > decodedBytes {
		d.bytes -= d.entries[d.order[0]].bytes()
		delete(d.entries, d.order[0])
		d.order = d.order[1:]
	}
	d.expiresLocked()
}

// expire drops all entries when nothing was read for keepDecoded. It is called again as
// long as there are any.
func (d *decoded) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.used) >= keepDecoded {
		d.entries, d.order, d.bytes = map[written]kept{}, nil, 0
		d.runs, d.ran, d.running = map[place]*run{}, nil, 0
	}
	if d.ticking = len(d.entries)+len(d.runs) > 0; d.ticking {
		time.AfterFunc(keepDecoded, d.expire)
	}
}
