// Package clientgo022 runs the informers of client-go 0.22 against the server: they LIST, then
// WATCH.
package clientgo022
