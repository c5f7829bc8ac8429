package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gapless-io/gapless/internal/kinds"
)

func FuzzNames(f *testing.F) {
	for _, seed := range []string{
		"", "a", "a-b.c", "-a", "a-", "a..b", ".a", "a.", "A", "0.1", "ä", "a--b", "1", "1-a", "sixteen-letters1",
		"a/b", "a.b/C_d.e", "A/b", "/a", "a/", "a/b/c", "a/-b", "B_c", "_a", "a_",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 127),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := kinds.IsSubdomain(name), len(validation.IsDNS1123Subdomain(name)) == 0; got != want {
			t.Errorf("%q is a subdomain: %t, want %t", name, got, want)
		}
		if got, want := kinds.IsLabel(name), len(validation.IsDNS1123Label(name)) == 0; got != want {
			t.Errorf("%q is a label: %t, want %t", name, got, want)
		}
		if got, want := kinds.IsQualified(name), len(validation.IsQualifiedName(name)) == 0; got != want {
			t.Errorf("%q is a qualified name: %t, want %t", name, got, want)
		}
		if got, want := kinds.IsLabelValue(name), name != "" && len(validation.IsValidLabelValue(name)) == 0; got != want {
			t.Errorf("%q is the value of a label: %t, want %t", name, got, want)
		}
		for what, rules := range map[string][2]func(string) []string{
			"subdomain": {kinds.SubdomainName, validation.IsDNS1123Subdomain},
			"label":     {kinds.LabelName, validation.IsDNS1123Label},
			"port":      {kinds.PortName, validation.IsValidPortName},
			"qualified": {kinds.QualifiedName, validation.IsQualifiedName},
		} {
			if got, want := rules[0](name), rules[1](name); !slices.Equal(got, want) {
				t.Errorf("%q as the name of a %s: %q, want %q", name, what, got, want)
			}
		}
	})
}
