package state

import "github.com/gapless-io/gapless/informer/internal/handle"

// Diff yields the changes from older to newer, by key, until yield returns false. Another
// UID under the same name is a deletion and an addition. Deletions are inferred, and
// their resource version is rv. Nodes that the trees share take almost no time.
func Diff[T handle.Object](older, newer Tree[T], rv string, yield func(Change[T]) bool) {
	if older.BTreeG == newer.BTreeG {
		return
	}
	d := differ[T]{yield: yield, rv: rv, old: runsOf(older)}
	wanted := true
	newer.Walk(func(run []Entry[T]) bool {
		d.run, d.place = run, 0
		for wanted && d.place < len(d.run) {
			wanted = d.next()
		}
		return wanted
	})
	for wanted && len(d.old) > 0 {
		wanted = d.deleted()
	}
}

// runsOf returns a tree's entries, in order, as the slices in its nodes. If two trees
// share a node, they have the same slice, at the same address.
func runsOf[T handle.Object](t Tree[T]) [][]Entry[T] {
	runs := make([][]Entry[T], 0, t.Len()/15) // nodes are half full or more, and between two leaves there is one more
	t.Walk(func(run []Entry[T]) bool {
		if len(run) > 0 {
			runs = append(runs, run)
		}
		return true
	})
	return runs
}

// differ compares two trees, both in the order of their keys.
type differ[T handle.Object] struct {
	yield func(Change[T]) bool
	rv    string

	old [][]Entry[T] // the rest of the older tree
	at  int          // in its first run

	run   []Entry[T] // of the newer tree
	place int        // in run
}

// next compares the next key of both trees, or skips a run that they share, and reports
// whether to go on. There must be something left in run.
func (d *differ[T]) next() (wanted bool) {
	if len(d.old) == 0 {
		return d.added()
	}
	if d.at == 0 && d.place == 0 && len(d.old[0]) == len(d.run) && &d.old[0][0] == &d.run[0] {
		d.old, d.place = d.old[1:], len(d.run)
		return true
	}
	a, b := d.old[0][d.at], d.run[d.place]
	switch c := Compare(a.Key, b.Key); {
	case c < 0:
		return d.deleted()
	case c > 0:
		return d.added()
	}
	d.step()
	d.place++
	switch {
	case Alike(a.Object, b.Object):
		return true
	case a.Object.GetUID() != b.Object.GetUID():
		return d.gone(a) && d.came(b)
	}
	return d.yield(Change[T]{Key: b.Key, Old: a.Object, New: b.Object, RV: b.Object.GetResourceVersion()})
}

// step skips an entry of the older tree.
func (d *differ[T]) step() {
	if d.at++; d.at == len(d.old[0]) {
		d.old, d.at = d.old[1:], 0
	}
}

func (d *differ[T]) added() bool {
	d.place++
	return d.came(d.run[d.place-1])
}

func (d *differ[T]) deleted() bool {
	e := d.old[0][d.at]
	d.step()
	return d.gone(e)
}

func (d *differ[T]) came(e Entry[T]) bool {
	return d.yield(Change[T]{Key: e.Key, New: e.Object, RV: e.Object.GetResourceVersion()})
}

func (d *differ[T]) gone(e Entry[T]) bool {
	return d.yield(Change[T]{Key: e.Key, Old: e.Object, RV: d.rv, Inferred: true})
}
