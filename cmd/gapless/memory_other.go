//go:build !linux

package main

// releaseProgram does nothing here: only Linux is asked.
func releaseProgram() {}
