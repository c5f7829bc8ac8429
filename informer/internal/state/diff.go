package state

// Diff yields what changed from older to newer, by key, until yield returns false: for
// another UID under the same name a deletion and an addition. Deletions are inferred,
// and their resource version is rv. What the trees share costs next to nothing.
func Diff[S Object](older, newer Tree[S], rv string, yield func(Change[S]) bool) {
	if older.BTreeG == newer.BTreeG {
		return
	}
	d := differ[S]{yield: yield, rv: rv, old: runsOf(older)}
	wanted := true
	newer.Walk(func(run []Entry[S]) bool {
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

// runsOf are a tree's entries, in order, by the runs in which they lie side by side
// in its nodes. Two trees that share a node have the same run, at the same address.
func runsOf[S Object](t Tree[S]) [][]Entry[S] {
	runs := make([][]Entry[S], 0, t.Len()/15) // nodes are half full or more, and between two leaves there is one more
	t.Walk(func(run []Entry[S]) bool {
		if len(run) > 0 {
			runs = append(runs, run)
		}
		return true
	})
	return runs
}

// differ compares two trees, both in the order of their keys.
type differ[S Object] struct {
	yield func(Change[S]) bool
	rv    string

	old [][]Entry[S] // what was not yet passed of the older tree
	at  int          // in its first run

	run   []Entry[S] // of the newer tree
	place int        // in run
}

// next looks at the next key of both, or passes over a run that they share, and
// says whether anybody wants to know more. There is something left in run.
func (d *differ[S]) next() (wanted bool) {
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
	case a.Object == b.Object || Same(a.Object, b.Object):
		return true
	case a.Object.GetUID() != b.Object.GetUID():
		return d.gone(a) && d.came(b)
	}
	return d.yield(Change[S]{Key: b.Key, Old: a.Object, New: b.Object, RV: b.Object.GetResourceVersion()})
}

// step passes an entry of the older tree.
func (d *differ[S]) step() {
	if d.at++; d.at == len(d.old[0]) {
		d.old, d.at = d.old[1:], 0
	}
}

func (d *differ[S]) added() bool {
	d.place++
	return d.came(d.run[d.place-1])
}

func (d *differ[S]) deleted() bool {
	e := d.old[0][d.at]
	d.step()
	return d.gone(e)
}

func (d *differ[S]) came(e Entry[S]) bool {
	return d.yield(Change[S]{Key: e.Key, New: e.Object, RV: e.Object.GetResourceVersion()})
}

func (d *differ[S]) gone(e Entry[S]) bool {
	return d.yield(Change[S]{Key: e.Key, Old: e.Object, RV: d.rv, Inferred: true})
}
