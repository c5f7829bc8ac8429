// Package watchcache keeps one resource in memory and lets any number of readers
// follow it: a watcher is a cursor over a shared log.
//
// A [Cache] is one resource. An [Entry] is one change of it, encoded once for all watchers. A
// [Snapshot] is the state at one resourceVersion. A [Cursor] reads the entries after a
// resourceVersion at its own pace, through a [Selection]. The [Clock] is the store's published
// revision, which moves resources without writes too. [History] reads entries that are no
// longer in memory.
//
// A cache's state is one atomic pointer to an immutable tree and an immutable
// window of the log. Append swaps it and schedules a wake-up; it never waits for a
// reader. A cursor holds only its position: behind the window it reads from
// History until it has caught up, and ends only when History reports that an entry
// it needs was removed.
//
// Only [Cache.Pace] makes a writer wait for readers, a little, when it asks to.
//
// cursor.go and window.go have how a watcher continues from disk to memory; index.go which
// cursors a change wakes; delta.go delta re-lists; exact.go lists at old resourceVersions;
// cache.go the wait of 3 s for a fresh state.
package watchcache
