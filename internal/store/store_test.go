package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestResourceOfReturnsTheTextBeforeTheSlash(t *testing.T) {
	for key, want := range map[string]string{"pods/a/b": "pods", "apps/x": "apps", "pods": "pods", "": "", "/x": ""} {
		if got := store.ResourceOf(key); got != want {
			t.Errorf("the resource of %q is %q, want %q", key, got, want)
		}
	}
}

func TestPrefixEndFollowsEveryKeyOfThePrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"pods/": "pods0", "a\xff": "b", "a\xff\xff": "b", "": "\xff\xff\xff\xff", "\xff": "\xff\xff\xff\xff",
	} {
		got := store.PrefixEnd(prefix)
		if got != want {
			t.Errorf("the end of %q is %q, want %q", prefix, got, want)
		}
		if last := prefix + "\xfe\xff"; last >= got {
			t.Errorf("%q is not before the end of %q", last, prefix)
		}
	}
}
