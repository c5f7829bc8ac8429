package kube_test

import (
	"testing"

	"github.com/gapless-io/gapless/kube"
)

// TestResourceVersionsCompareByNumber, whatever their length. A comparison with upstream's
// function is in internal/registry.
func TestResourceVersionsCompareByNumber(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		order   int
		invalid bool
	}{
		{a: "9", b: "10", order: -1},
		{a: "10", b: "10", order: 0},
		{a: "18446744073709551616", b: "18446744073709551615", order: 1}, // more than 64 bits
		{a: "", b: "1", invalid: true},
		{a: "0", b: "1", invalid: true},
		{a: "007", b: "8", invalid: true},
		{a: "1", b: "1a", invalid: true},
		{a: "-1", b: "1", invalid: true},
	} {
		order, err := kube.CompareResourceVersion(c.a, c.b)
		if order != c.order || (err != nil) != c.invalid {
			t.Errorf("%q and %q compare as %d, %v", c.a, c.b, order, err)
		}
		if older := kube.OlderRV(c.a, c.b); older != (!c.invalid && c.order < 0) {
			t.Errorf("%q is older than %q: %t", c.a, c.b, older)
		}
	}
}
