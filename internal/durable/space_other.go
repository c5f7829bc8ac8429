//go:build !linux && !darwin && !freebsd && !windows

package durable

import "errors"

func spaceOf(string) (Space, error) { return Space{}, errors.ErrUnsupported }
