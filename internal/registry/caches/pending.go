package caches

import (
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// pending are the entries of a resource that are not appended yet.
type pending struct {
	entries []*watchcache.Entry
	// last has the last entry of each object among the first indexed of entries. Only who loses a value needs it, so
	// that it is made then; a batch may have many such values among many entries.
	last    map[wire.Key]*watchcache.Entry
	indexed int
}

// latest returns the last entry of an object; nil if there is none. All calls together look at each entry once.
func (p *pending) latest(key wire.Key) *watchcache.Entry {
	if p == nil {
		return nil
	}
	if p.last == nil {
		p.last = map[wire.Key]*watchcache.Entry{}
	}
	for _, e := range p.entries[p.indexed:] {
		p.last[e.Object.Key()] = e
	}
	p.indexed = len(p.entries)
	return p.last[key]
}
