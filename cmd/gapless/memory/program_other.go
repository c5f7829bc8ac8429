//go:build !linux

package memory

// releaseProgram does nothing here: only Linux is asked.
func releaseProgram() {}
