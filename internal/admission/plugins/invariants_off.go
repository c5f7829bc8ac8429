//go:build !invariants

package plugins

func checkForm(*Write, func() error) error { return nil }
