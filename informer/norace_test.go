//go:build !race

package informer_test

// raced says that the race detector is on.
const raced = false
