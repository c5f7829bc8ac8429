package queue

// Filter says what a handler wants to hear of. Its functions are called where the
// handler is, by several workers at once, and may depend on their arguments only.
type Filter[T comparable] struct {
	// Where says of which objects the handler hears; nil: of all. One that comes to
	// match is Added, one that no longer does is Deleted.
	Where func(T) bool
	// Differs says which modifications are told; nil: all.
	Differs func(before, now T) bool
}

// view is what the handler is told of a task, if anything.
func (f *Filter[T]) view(t *task[T]) (told Told[T], is bool) {
	var none T
	e := t.told
	if f.Where == nil && f.Differs == nil || e.Kind == Resync && e.New == none {
		return e, true
	}
	wanted := func(o T) bool { return o != none && (f.Where == nil || f.Where(o)) }
	before := wanted(t.seen)
	switch {
	case e.Kind != Deleted && wanted(e.New):
		if !before {
			e.Kind, e.Old = Added, none
		}
		// Who did not finish the last call hears of the state in any case.
		same := e.Kind == Modified && f.Differs != nil && !t.owes && !t.pending.must && !f.Differs(t.seen, e.New)
		return e, !same
	case !before && !wanted(t.shown):
		return e, false
	case e.Kind != Deleted: // it left
		e.Kind, e.Old, e.New, e.Initial = Deleted, t.seen, none, false
		if !before {
			e.Old = t.shown
		}
	}
	return e, true
}
