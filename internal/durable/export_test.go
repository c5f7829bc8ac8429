package durable

// MkdirAllWith is MkdirAll with another way to sync a directory.
func MkdirAllWith(dir string, sync func(string) error) error { return mkdirAll(dir, sync) }
