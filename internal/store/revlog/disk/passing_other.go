//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package disk

// IsPassing is not known here, where only the memory mode works.
func IsPassing(error) bool { return false }
