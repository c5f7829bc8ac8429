package mirror

import (
	"cmp"
	"slices"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// position is where a state of the other server is in the log: after the change at rev the
// state is that at rv, and at each resourceVersion up to that of the next position, unless a
// hole is between them.
type position struct {
	rev int64
	rv  kube.ResourceVersion
}

// hole is a stretch of resourceVersions, without its ends, at which the state is not known.
// rev is the position of its upper end.
type hole struct {
	from, to kube.ResourceVersion
	rev      int64
}

// positions are those of a collection, oldest first. They take 16 bytes for each change that is
// kept.
type positions struct {
	rows    []position
	holes   []hole
	through kube.ResourceVersion // everything up to here is recorded
	torn    bool                 // the last replacement was cut off
	floor   int64                // what was before it is dropped
	moved   chan struct{}        // closed when through moves; nil: nobody waits
}

// add records that the state after the change at rev is that at rv.
func (p *positions) add(rev int64, rv kube.ResourceVersion) {
	p.rows = append(p.rows, position{rev, rv})
}

// replaced records a hole, at whose end the state is known again.
func (p *positions) replaced(h hole) {
	p.holes = append(p.holes, h) // also an empty one: its deletions are not those of a watch
	p.add(h.rev, h.to)
	p.torn = false
	p.progress(h.to)
}

// progress records that nothing else happened up to rv.
func (p *positions) progress(rv kube.ResourceVersion) {
	if rv <= p.through {
		return
	}
	p.through = rv
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// wait returns what is closed when through moves.
func (p *positions) wait() <-chan struct{} {
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}

// hole returns the hole that rv is in.
func (p *positions) hole(rv kube.ResourceVersion) (h hole, in bool) {
	i, _ := slices.BinarySearchFunc(p.holes, rv, func(h hole, rv kube.ResourceVersion) int { return cmp.Compare(h.to, rv) })
	if i < len(p.holes) && p.holes[i].from < rv && rv < p.holes[i].to {
		return p.holes[i], true
	}
	return hole{}, false
}

// at returns the last position at which the state is that at rv.
func (p *positions) at(rv kube.ResourceVersion) (rev int64, found bool) {
	i, _ := slices.BinarySearchFunc(p.rows, rv, func(row position, rv kube.ResourceVersion) int {
		if row.rv <= rv {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0, false
	}
	return p.rows[i-1].rev, true
}

// version returns the resourceVersion of the state at a position, the highest that is known.
func (p *positions) version(rev int64) kube.ResourceVersion {
	i, _ := slices.BinarySearchFunc(p.rows, rev+1, compareRev)
	switch {
	case i == 0:
		return 0
	case i == len(p.rows):
		return p.through
	}
	if h, ends := p.ending(i); ends {
		return h.from
	}
	if rv := p.rows[i-1].rv; rv < p.rows[i].rv {
		return rv
	}
	return p.rows[i].rv - 1 // the next change has the same resourceVersion
}

// versionOf returns the resourceVersion of the deletion at a position that is not before the floor.
// One of a replacement has that of the state before.
func (p *positions) versionOf(rev int64) kube.ResourceVersion {
	i, _ := slices.BinarySearchFunc(p.rows, rev, compareRev)
	if i == len(p.rows) {
		return p.through
	}
	if h, ends := p.ending(i); ends {
		return h.from
	}
	return p.rows[i].rv
}

// ending returns the hole that ends at a row.
func (p *positions) ending(i int) (h hole, ends bool) {
	at, found := slices.BinarySearchFunc(p.holes, p.rows[i].rev, func(h hole, rev int64) int { return cmp.Compare(h.rev, rev) })
	if !found {
		return hole{}, false
	}
	return p.holes[at], true
}

func compareRev(row position, rev int64) int { return cmp.Compare(row.rev, rev) }

// oldest is the oldest resourceVersion that is recorded.
func (p *positions) oldest() kube.ResourceVersion {
	if len(p.rows) == 0 {
		return p.through
	}
	return p.rows[0].rv
}

func (p *positions) newest() int64 {
	if len(p.rows) == 0 {
		return 0
	}
	return p.rows[len(p.rows)-1].rev
}

// lastChange is the resourceVersion of the last change.
func (p *positions) lastChange() kube.ResourceVersion {
	if len(p.rows) == 0 {
		return 0
	}
	return p.rows[len(p.rows)-1].rv
}

// trim drops the positions before a floor of the log, which are all of them if that is at a change
// that is still being recorded, or the collection is torn.
func (p *positions) trim(floor int64) {
	p.floor = max(p.floor, floor)
	i, _ := slices.BinarySearchFunc(p.rows, floor, compareRev)
	if i == 0 {
		return
	}
	if p.rows = slices.Clone(p.rows[i:]); len(p.rows) == 0 {
		p.holes = nil
		return
	}
	kept, _ := slices.BinarySearchFunc(p.holes, p.rows[0].rev, func(h hole, rev int64) int { return cmp.Compare(h.rev, rev) })
	p.holes = slices.Clone(p.holes[kept:])
}

// from returns the resourceVersion of the first position at or after rev.
func (p *positions) from(rev int64) kube.ResourceVersion {
	i, _ := slices.BinarySearchFunc(p.rows, rev, compareRev)
	if i == len(p.rows) {
		return p.through
	}
	return p.rows[i].rv
}

// gaps returns the holes whose difference is at positions after one, up to another one.
func (p *positions) gaps(after, upTo int64) (gaps []wire.Gap) {
	i, _ := slices.BinarySearchFunc(p.holes, after+1, func(h hole, rev int64) int { return cmp.Compare(h.rev, rev) })
	for _, h := range p.holes[i:] {
		begin := int64(0)
		if row, _ := slices.BinarySearchFunc(p.rows, h.rev, compareRev); row > 0 {
			begin = p.rows[row-1].rev
		}
		if begin >= upTo {
			break
		}
		if h.from+1 < h.to {
			gaps = append(gaps, wire.Gap{After: h.from, UpTo: h.to})
		}
	}
	return gaps
}
