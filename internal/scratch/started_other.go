//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package scratch

// started is not known here: a directory stays if its owner's number was given again.
func started(int) string { return "" }
