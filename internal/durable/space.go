package durable

import "fmt"

// Space is what there is of a file system, in bytes.
type Space struct {
	// Free is what a program without special rights may still write, and Total the size of the file system.
	Free, Total int64
}

// SpaceOf returns the space of the file system that a directory is in. Errors: those of the system; one that wraps
// errors.ErrUnsupported where the program cannot ask it.
func SpaceOf(dir string) (Space, error) {
	of, err := spaceOf(dir)
	if err != nil {
		return Space{}, fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	return of, nil
}
