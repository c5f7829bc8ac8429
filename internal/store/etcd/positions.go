package etcd

import (
	"cmp"
	"slices"
)

// run is a stretch of positions of the log, up to the next run. Each position in it has a
// revision one higher than the position before, or, if it is flat, the same one.
type run struct {
	pos, rev int64
	flat     bool
}

// hole is a stretch of revisions, without its ends, at which the state is not known. What differs
// between its ends is at the positions from begin to end.
type hole struct {
	from, to   int64
	begin, end int64
}

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
	if len(p.runs) == 0 {
		p.runs, p.newest = append(p.runs, run{pos: pos, rev: rev}), pos
		return
	}
	last := &p.runs[len(p.runs)-1]
	was := last.revision(p.newest)
	rev = max(rev, was) // only in what a replacement that was cut off has left
	switch {
	case pos != p.newest+1:
		p.runs = append(p.runs, run{pos: pos, rev: rev})
	case rev == was && last.pos == p.newest:
		last.flat = true
	case rev == was && !last.flat:
		p.runs = append(p.runs, run{pos: p.newest, rev: rev, flat: true})
	case rev == was, rev == was+1 && !last.flat:
	default:
		p.runs = append(p.runs, run{pos: pos, rev: rev})
	}
	p.newest = pos
}

func (r run) revision(pos int64) int64 {
	if r.flat {
		return r.rev
	}
	return r.rev + pos - r.pos
}

// revision returns the revision of a position. One that was trimmed has at most its own.
func (p *positions) revision(pos int64) int64 {
	i, found := slices.BinarySearchFunc(p.runs, pos, func(r run, pos int64) int { return cmp.Compare(r.pos, pos) })
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	rev := p.runs[i].revision(pos)
	if i+1 < len(p.runs) {
		rev = min(rev, p.runs[i+1].rev)
	}
	return rev
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
	if i == 0 {
		if len(p.runs) == 0 {
			return 0
		}
		return p.runs[0].pos - 1
	}
	end := p.newest
	if i < len(p.runs) {
		end = p.runs[i].pos - 1
	}
	if r := p.runs[i-1]; !r.flat {
		end = min(end, r.pos+rev-r.rev)
	}
	return end
}

// before returns the highest revision at which the state is the one after pos, where pos is not
// the newest.
func (p *positions) before(pos int64) int64 {
	if len(p.runs) > 0 && pos+1 < p.runs[0].pos {
		return p.runs[0].rev - 1
	}
	return p.revision(pos+1) - 1
}

// hole returns the hole that a revision is in.
func (p *positions) hole(rev int64) (h hole, in bool) {
	i, _ := slices.BinarySearchFunc(p.holes, rev, func(h hole, rev int64) int { return cmp.Compare(h.to, rev) })
	if i < len(p.holes) && p.holes[i].from < rev && rev < p.holes[i].to {
		return p.holes[i], true
	}
	return hole{}, false
}

// splits reports whether the position is within what has to be delivered at once: the changes at
// one revision, and those of a hole.
func (p *positions) splits(pos int64) bool {
	if pos >= p.newest {
		return false
	}
	if p.revision(pos+1) == p.revision(pos) {
		return true
	}
	i, _ := slices.BinarySearchFunc(p.holes, pos+1, func(h hole, pos int64) int { return cmp.Compare(h.end, pos) })
	return i < len(p.holes) && p.holes[i].begin <= pos
}

// trim forgets the positions up to a compacted one, besides those that are kept, in order.
func (p *positions) trim(compacted int64, kept []int64) {
	trimmed := positions{holes: p.holes}
	for _, pos := range kept {
		if pos <= compacted && pos > trimmed.newest {
			trimmed.add(pos, p.revision(pos))
		}
	}
	if first := max(compacted+1, trimmed.newest+1); first <= p.newest {
		i, found := slices.BinarySearchFunc(p.runs, first, func(r run, pos int64) int { return cmp.Compare(r.pos, pos) })
		if !found {
			i--
		}
		if i >= 0 {
			trimmed.runs = append(trimmed.runs, run{pos: first, rev: p.revision(first), flat: p.runs[i].flat})
		}
		trimmed.runs = append(trimmed.runs, p.runs[i+1:]...)
	}
	trimmed.newest = p.newest
	*p = trimmed
}
