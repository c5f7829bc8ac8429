package etcd

import (
	"cmp"
	"math"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
)

// run is a stretch of n positions of the log. Each of them has a revision one higher than the position
// before, or, if the run is flat, the same one. Between two runs are records of the replica's own, or
// positions that were trimmed.
type run struct {
	pos, rev int64
	n        int32
	flat     bool
}

// last is the last position of the run.
func (r run) last() int64 { return r.pos + int64(r.n) - 1 }

// revision returns the revision of a position, or of the last before it.
func (r run) revision(pos int64) int64 {
	if r.flat {
		return r.rev
	}
	return r.rev + min(pos, r.last()) - r.pos
}

// hole is a stretch of revisions, without its ends, at which the state is not known. What differs
// between its ends is at the positions from begin to end.
type hole struct {
	from, to   int64
	begin, end int64
}

// revision returns at which revision a change that was at mod belongs to the difference: an object can be older than
// the hole if its resource is new to the log.
func (h hole) revision(mod int64) int64 { return max(mod, h.from+1) }

// positions translate between positions of the log and etcd's revisions. Both only grow; several
// positions can have one revision. They take 24 bytes for each run: a run ends with a deletion, a
// revision that concerns no object, and a transaction on several keys.
type positions struct {
	runs   []run
	holes  []hole
	newest int64 // the last position; 0: none
}

// add records the revision of the next position.
func (p *positions) add(pos, rev int64) {
	next := run{pos: pos, rev: rev, n: 1}
	if len(p.runs) > 0 {
		last := &p.runs[len(p.runs)-1]
		was := last.revision(p.newest)
		next.rev = max(rev, was) // lower only in what a replacement that was cut off has left
		switch {
		case pos != p.newest+1 || last.n == math.MaxInt32 || next.rev > was+1:
		case next.rev == was+1 && !last.flat:
			last.n++
			next.n = 0
		case next.rev == was && (last.flat || last.n == 1):
			last.n++
			last.flat, next.n = true, 0
		case next.rev == was: // the last position begins a flat run
			last.n--
			next = run{pos: p.newest, rev: was, n: 2, flat: true}
		}
	}
	if next.n > 0 {
		p.runs = append(p.runs, next)
	}
	p.newest = pos
}

// runOf returns the place of the run that has a position, or of the last before it; -1: none.
func (p *positions) runOf(pos int64) int {
	i, found := slices.BinarySearchFunc(p.runs, pos, func(r run, pos int64) int { return cmp.Compare(r.pos, pos) })
	if !found {
		i--
	}
	return i
}

// revision returns the revision of a position, or of the last before it that is known.
func (p *positions) revision(pos int64) int64 {
	i := p.runOf(pos)
	if i < 0 {
		return 0
	}
	return p.runs[i].revision(pos)
}

// at returns the last position with a revision at or below rev. Before the first one, it is the
// position before everything.
func (p *positions) at(rev int64) int64 {
	i, _ := slices.BinarySearchFunc(p.runs, rev, func(r run, rev int64) int {
		if r.rev <= rev {
			return -1
		}
		return 1
	})
	switch {
	case i > 0 && p.runs[i-1].flat:
		return p.runs[i-1].last()
	case i > 0:
		return min(p.runs[i-1].last(), p.runs[i-1].pos+rev-p.runs[i-1].rev)
	case len(p.runs) == 0:
		return 0
	}
	return p.runs[0].pos - 1
}

// before returns the highest revision at which the state is the one after pos, where pos is not
// the newest.
func (p *positions) before(pos int64) int64 {
	i := p.runOf(pos)
	if i >= 0 && pos < p.runs[i].last() {
		return p.runs[i].revision(pos+1) - 1
	}
	if i+1 < len(p.runs) {
		return p.runs[i+1].rev - 1
	}
	return p.revision(pos)
}

// splits reports whether the next position with a revision has the same one. It can be in another run:
// between the attempts to record a replacement is a mark without a revision.
func (p *positions) splits(pos int64) bool {
	i := p.runOf(pos)
	switch {
	case i < 0:
		return false
	case pos < p.runs[i].last():
		return p.runs[i].flat
	}
	return i+1 < len(p.runs) && p.runs[i+1].rev == p.runs[i].revision(pos)
}

// shared reports whether a deletion has its revision together with other changes, or could have it.
func (p *positions) shared(pos int64) bool {
	if i := p.runOf(pos); i >= 0 && p.runs[i].flat && p.runs[i].n > 2 { // itself and its mark
		return true
	}
	i, _ := slices.BinarySearchFunc(p.holes, pos, func(h hole, pos int64) int { return cmp.Compare(h.end, pos) })
	return i < len(p.holes) && p.holes[i].begin <= pos
}

// hole returns the hole that a revision is in.
func (p *positions) hole(rev int64) (h hole, in bool) {
	i, _ := slices.BinarySearchFunc(p.holes, rev, func(h hole, rev int64) int { return cmp.Compare(h.to, rev) })
	if i < len(p.holes) && p.holes[i].from < rev && rev < p.holes[i].to {
		return p.holes[i], true
	}
	return hole{}, false
}

// over returns the holes over which one goes from a revision to another one.
func (p *positions) over(after, through int64) []store.Hole {
	i, _ := slices.BinarySearchFunc(p.holes, after+1, func(h hole, rev int64) int { return cmp.Compare(h.to, rev) })
	var over []store.Hole
	for _, h := range p.holes[i:] {
		if h.from >= through {
			break
		}
		if h.from+1 < h.to { // otherwise nothing is in it
			over = append(over, store.Hole{From: h.from, To: h.to})
		}
	}
	return over
}

// trim forgets the positions up to a compacted one, besides those that are kept, in order.
func (p *positions) trim(compacted int64, kept []int64) {
	trimmed := positions{holes: p.holes}
	for _, pos := range kept {
		if pos <= compacted && pos > trimmed.newest {
			trimmed.add(pos, p.revision(pos))
		}
	}
	first := compacted + 1
	for i := max(0, p.runOf(first)); i < len(p.runs); i++ {
		r := p.runs[i]
		if r.last() < first {
			continue
		}
		if r.pos < first {
			r.rev = r.revision(first)
			r.pos, r.n = first, int32(r.last()-first+1)
		}
		trimmed.runs = append(trimmed.runs, r)
	}
	trimmed.newest = p.newest
	*p = trimmed
}
