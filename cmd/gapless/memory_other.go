//go:build !linux

package main

// forgetStart does nothing here: only Linux is asked.
func forgetStart() {}
