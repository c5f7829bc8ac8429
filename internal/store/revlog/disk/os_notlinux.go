//go:build !linux

package disk

import "os"

// reserve promises nothing here: the caller's Truncate makes a sparse file.
func reserve(*os.File, int64, int64) (reserved bool, err error) { return false, nil }

// syncData is a full flush to the medium on darwin, which has no fdatasync.
func syncData(f *os.File) error { return f.Sync() }
