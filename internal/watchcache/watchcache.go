// Package watchcache keeps one resource in memory and lets any number of readers
// follow it: a watcher is a cursor over a shared log.
//
// It has seven nouns. A [Cache] is one resource. An [Entry] is one change of it,
// encoded once for all who watch. A [Snapshot] is the state at one
// resourceVersion. A [Cursor] reads the entries after a resourceVersion at its own
// pace, through a [Selection]. The [Clock] is the store's published revision, which
// moves resources without writes too. [History] answers for what memory no longer
// holds.
//
// A cache's state is one atomic pointer to an immutable tree and an immutable
// window of the log. Append swaps it and leaves a wake-up; nobody waits for a
// reader. A cursor holds only its position: behind the window it reads from
// History until it has caught up, and ends only when History says that something
// it needs was removed.
package watchcache
