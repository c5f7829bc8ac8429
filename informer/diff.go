package informer

import (
	"iter"

	"github.com/gapless-io/gapless/informer/internal/state"
)

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
	return func(yield func(Event[T]) bool) {
		s.changes(older, func(c change[T]) bool {
			e := Event[T]{Type: Modified, Key: c.Key, Old: c.Old.Get(), New: c.New.Get(), RV: c.RV, Inferred: c.Inferred}
			var none held[T]
			switch none {
			case c.New:
				e.Type = Deleted
			case c.Old:
				e.Type = Added
			}
			return yield(e)
		})
	}
}

// changes calls yield for what changed from older to s, until it returns false.
func (s Snapshot[T]) changes(older Snapshot[T], yield func(change[T]) bool) {
	from, to := older.state(), s.state()
	state.Diff(from.tree, to.tree, to.rv, yield)
}
