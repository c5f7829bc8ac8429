package informer

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEverySourceOptionIsPartOfTheIdentity fails when there is a new one: identityOf
// must say whether sources that differ in it bring the same.
func TestEverySourceOptionIsPartOfTheIdentity(t *testing.T) {
	known := []string{"errs", "metadata", "namespaces", "narrow", "shard", "strip", "text"} // text does not count
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[sourceOptions]()) {
		fields = append(fields, f.Name)
	}
	slices.Sort(fields)
	if diff := cmp.Diff(known, fields); diff != "" {
		t.Errorf("options of sources (-known +are):\n%s", diff)
	}
}
