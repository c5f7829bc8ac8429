package schema_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gapless-io/gapless/internal/schema"
)

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "a", "a-b.c", "-a", "a-", "a..b", ".a", "a.", "A", "0.1", "ä", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 127)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := schema.IsSubdomain(name), len(validation.IsDNS1123Subdomain(name)) == 0; got != want {
			t.Errorf("%q is a subdomain: %t, want %t", name, got, want)
		}
		if got, want := schema.IsLabel(name), len(validation.IsDNS1123Label(name)) == 0; got != want {
			t.Errorf("%q is a label: %t, want %t", name, got, want)
		}
	})
}
