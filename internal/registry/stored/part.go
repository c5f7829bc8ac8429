package stored

import (
	"cmp"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// part is one read of a resource's history under way.
type part struct {
	resource *Resource
	q        watchcache.Range
	fields   *[]wire.FieldPath
	previous bool                // objects before the changes are required
	known    []*watchcache.Entry // of each change that the store has chosen; nil: not known
	found    []found             // of each change that is not known
	entries  []*watchcache.Entry
	decoded  []*watchcache.Entry // those of entries that were not known
}

// found is what is known of a change of which something must be read.
type found struct{ object, previous *wire.Object }

func (r *Resource) part(q watchcache.Range) *part {
	return &part{resource: r, q: q, fields: r.fields.Load(), previous: q.Selection != nil && q.Selection.NeedsPrevious()}
}

// isKnown reports whether another reader has decoded a change, with the object before if
// it is required, and the bytes of the object (store.From.Known).
func (p *part) isKnown(key string, revision int64) (bytes int, known bool) {
	e := p.resource.source.decoded.get(p.resource.written(key, revision), p.fields)
	if e != nil && p.previous && e.Replaces && e.Previous == nil {
		e = nil
	}
	if p.known = append(p.known, e); e == nil {
		return 0, false
	}
	return e.Object.Size(), true
}

// want says which values of a change the store must read (store.From.Want): none that
// another reader has decoded, and none that is not required.
func (p *part) want(c store.Change) (value, previous bool) {
	var f found
	decoded := &p.resource.source.decoded
	if !c.Deleted {
		f.object = decoded.object(p.resource.written(c.Key, c.Revision), p.fields)
		value = f.object == nil
	}
	// The object before may be that of a change of this part.
	if p.requires(c) && c.Previous.ModRevision <= int64(p.q.After) {
		f.previous = decoded.object(p.resource.written(c.Key, c.Previous.ModRevision), p.fields)
		previous = f.previous == nil
	}
	p.found = append(p.found, f)
	return value, previous
}

// requires reports whether the entry of c needs the object before. That of a deletion does:
// it is the last content.
func (p *part) requires(c store.Change) bool {
	return c.Previous != nil && (p.previous || c.Deleted)
}

// decode turns a batch into entries. Those of the revisions before an error are valid.
func (p *part) decode(batch store.Batch) (entries []*watchcache.Entry, through kube.ResourceVersion, err error) {
	defer func() { p.resource.source.decoded.put(p.decoded, p.fields) }()
	p.entries = make([]*watchcache.Entry, 0, len(batch.Changes))
	holes := holesOf(batch)
	for i, c := range batch.Changes {
		e := p.known[i]
		if e == nil {
			if e, err = p.entry(c, p.found[len(p.decoded)]); err != nil {
				entries, through = p.before(c.Revision)
				return entries, through, err
			}
			e.Hole = holes.of(e.RV)
		}
		p.entries = append(p.entries, e)
	}
	return p.entries, kube.ResourceVersion(batch.Through), nil
}

// before returns the entries before a revision, and up to where they are all.
func (p *part) before(revision int64) (entries []*watchcache.Entry, through kube.ResourceVersion) {
	n := p.search(revision)
	if n == 0 {
		return nil, p.q.After
	}
	return p.entries[:n], p.entries[n-1].RV
}

// search returns the index of the first entry at a revision, or where it would be.
func (p *part) search(revision int64) int {
	i, _ := slices.BinarySearchFunc(p.entries, kube.ResourceVersion(revision),
		func(e *watchcache.Entry, rv kube.ResourceVersion) int {
			return cmp.Compare(e.RV, rv)
		})
	return i
}

// holes are those of a batch.
type holes []watchcache.Hole

func holesOf(batch store.Batch) holes {
	var all holes
	for _, h := range batch.Holes {
		all = append(all, watchcache.Hole{From: kube.ResourceVersion(h.From), To: kube.ResourceVersion(h.To)})
	}
	return all
}

// of returns the hole of whose difference the change at rv is, or nil.
func (all holes) of(rv kube.ResourceVersion) *watchcache.Hole {
	for i := range all {
		if h := &all[i]; h.From < rv && rv <= h.To {
			return h
		}
	}
	return nil
}

// entry turns a change that is not known into an entry.
func (p *part) entry(c store.Change, f found) (*watchcache.Entry, error) {
	previous, err := p.previousOf(c, f)
	if err != nil {
		return nil, err
	}
	if f.object == nil && !c.Deleted {
		if f.object, err = p.resource.objectWith(*p.fields, c.Key, c.Value, c.Revision); err != nil {
			return nil, err
		}
	}
	e, err := p.resource.entryOf(c, f.object, previous)
	if err == nil {
		p.decoded = append(p.decoded, e)
	}
	return e, err
}

// previousOf returns the object before a change, nil if there is none or it is not required.
func (p *part) previousOf(c store.Change, f found) (*wire.Object, error) {
	if !p.requires(c) || f.previous != nil {
		return f.previous, nil
	}
	revision := c.Previous.ModRevision
	for _, e := range p.entries[p.search(revision):] {
		if int64(e.RV) != revision {
			break
		}
		if p.resource.names(c.Key, e.Object.Key()) {
			return e.Object, nil
		}
	}
	return p.resource.objectWith(*p.fields, c.Key, c.Previous.Value, revision)
}
