//go:build !linux

package main

// forgetProgram does nothing here: only Linux is asked.
func forgetProgram() {}
