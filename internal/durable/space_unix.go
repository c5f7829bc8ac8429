//go:build linux || darwin || freebsd

package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

func spaceOf(dir string) (Space, error) {
	for {
		var of unix.Statfs_t
		err := unix.Statfs(dir, &of)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		block := int64(of.Bsize) //nolint:unconvert // its type differs between systems, like that of the numbers of blocks
		//nolint:gosec // no file system has 8 EiB
		return Space{Free: max(0, int64(of.Bavail)*block), Total: int64(of.Blocks) * block}, err
	}
}
