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
	previous bool // objects before the changes are required
	// answers are about the changes that the store has asked about: the last one of each, since it asks again about
	// those that it leaves to a later batch.
	answers map[written]answer
	entries []*watchcache.Entry
	decoded []*watchcache.Entry // those of entries that were not known
}

// answer is what the store got as an answer about a change: that its entry is known or, of one of which something must be
// read, what is known of it.
type answer struct {
	entry            *watchcache.Entry
	object, previous *wire.Object
}

func (r *Resource) part(q watchcache.Range) *part {
	return &part{
		resource: r, q: q, fields: r.fields.Load(), previous: q.Selection != nil && q.Selection.NeedsPrevious(),
		answers: map[written]answer{},
	}
}

// isKnown reports whether another reader has decoded a change, with the object before if
// it is required, and the bytes of the object (store.From.Known).
func (p *part) isKnown(key string, revision int64) (bytes int, known bool) {
	change := p.resource.written(key, revision)
	e := p.resource.source.decoded.get(change, p.fields)
	if e != nil && p.previous && e.Replaces && e.Previous == nil {
		e = nil
	}
	if p.answers[change] = (answer{entry: e}); e == nil {
		return 0, false
	}
	return e.Object.Size(), true
}

// want says which values of a change the store must read (store.From.Want): none that
// another reader has decoded, and none that is not required.
func (p *part) want(c store.Change) (value, previous bool) {
	var a answer
	decoded := &p.resource.source.decoded
	if !c.Deleted {
		a.object = decoded.object(p.resource.written(c.Key, c.Revision), p.fields)
		value = a.object == nil
	}
	// The object before may be that of a change of this part.
	if p.requires(c) && c.Previous.ModRevision <= int64(p.q.After) {
		a.previous = decoded.object(p.resource.written(c.Key, c.Previous.ModRevision), p.fields)
		previous = a.previous == nil
	}
	p.answers[p.resource.written(c.Key, c.Revision)] = a
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
	for _, c := range batch.Changes {
		a := p.answers[p.resource.written(c.Key, c.Revision)]
		e := a.entry
		if e == nil {
			if e, err = p.entry(c, a); err != nil {
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
func (p *part) entry(c store.Change, a answer) (*watchcache.Entry, error) {
	previous, err := p.previousOf(c, a)
	if err != nil {
		return nil, err
	}
	if a.object == nil && !c.Deleted {
		if a.object, err = p.resource.objectWith(*p.fields, c.Key, c.Value, c.Revision); err != nil {
			return nil, err
		}
	}
	e, err := p.resource.entryOf(c, a.object, previous)
	if err == nil {
		p.decoded = append(p.decoded, e)
	}
	return e, err
}

// previousOf returns the object before a change, nil if there is none or it is not required.
func (p *part) previousOf(c store.Change, a answer) (*wire.Object, error) {
	if !p.requires(c) || a.previous != nil {
		return a.previous, nil
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
