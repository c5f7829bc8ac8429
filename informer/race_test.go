//go:build race

package informer_test

// raced says that the race detector is on: then a sync.Pool forgets at random, and what
// would be used again is allocated.
const raced = true
