//go:build !race

package relay_test

// raced says that the race detector is on.
const raced = false
