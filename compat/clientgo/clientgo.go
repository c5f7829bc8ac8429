// Package clientgo runs the informers of client-go 0.37 against the server: they
// open with a streaming list. It has one noun: the informer under test.
package clientgo
