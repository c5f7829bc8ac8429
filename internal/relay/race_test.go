//go:build race

package relay_test

// raced says that the race detector is on, which makes a walk take ten times as long: a part of them are played.
const raced = true
