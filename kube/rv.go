package kube

import (
	"fmt"
	"strconv"
)

// ResourceVersion is the wire's number of a change: decimal, no leading zero,
// comparable within one server (KEP-5504). 0 means "any" or "not set".
type ResourceVersion uint64

// String returns the decimal form.
func (rv ResourceVersion) String() string { return strconv.FormatUint(uint64(rv), 10) }

// ParseResourceVersion reads a resourceVersion as it stands in a request: "" and
// "0" are 0. The text of the error is upstream's (apiserver
// pkg/storage/api_object_versioner.go), so that it can be shown to clients.
func ParseResourceVersion(s string) (ResourceVersion, error) {
	if s == "" || s == "0" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", s, err)
	}
	return ResourceVersion(n), nil
}
