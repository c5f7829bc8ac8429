// Package clientgo runs the informers of client-go 0.37 against the server: they open with a
// streaming list.
package clientgo
