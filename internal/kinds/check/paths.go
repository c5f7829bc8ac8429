package check

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DescendingPath checks a path below another one.
func DescendingPath(at *field.Path, name, text string) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(text) {
		errs = append(errs, field.Invalid(at.Child(name), text, "must be a relative path"))
	}
	return append(errs, NoBacksteps(at, name, text)...)
}

// NoBacksteps checks that no part of a path is "..".
func NoBacksteps(at *field.Path, name, text string) field.ErrorList {
	if !GoesBack(text) {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child(name), text, "must not contain '..'")}
}

// GoesBack reports whether a part of a path is "..".
func GoesBack(text string) bool {
	return strings.Contains(text, "..") && slices.Contains(strings.Split(text, "/"), "..")
}
