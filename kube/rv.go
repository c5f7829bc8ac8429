package kube

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// ResourceVersion is the number of a change, as clients see it: decimal, no leading zero,
// comparable within one server (KEP-5504). 0 means "any" or "not set".
type ResourceVersion uint64

// String returns the decimal form.
func (rv ResourceVersion) String() string { return strconv.FormatUint(uint64(rv), 10) }

// ParseResourceVersion reads the resourceVersion of a request: "" and
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

// CompareResourceVersion compares two resource versions of one resource of one server:
// negative if a is older than b, 0 if they are equal, positive if a is newer. They may
// have any number of digits (KEP-5504). Errors: one of them is no decimal number above 0
// without leading zeros; the text is upstream's (apimachinery pkg/util/resourceversion,
// which client-go 0.32 does not have yet).
func CompareResourceVersion(a, b string) (int, error) {
	for _, rv := range []string{a, b} {
		if !isPositiveDecimal(rv) {
			return 0, fmt.Errorf("resource version is not well formed: %s", rv)
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)), nil
}

func isPositiveDecimal(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

// OlderRV reports whether resource version a is older than b. It is false where
// CompareResourceVersion returns an error.
func OlderRV(a, b string) bool {
	order, err := CompareResourceVersion(a, b)
	return err == nil && order < 0
}
