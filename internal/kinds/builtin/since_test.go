package printers_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/printers"
)

// A name that no resource has would leave the cells of the one that was meant to any version.
func TestKindsWhoseCellsChangedAreServed(t *testing.T) {
	later := map[string]int{}
	for _, r := range builtin.Catalog().Resources() {
		switch since := printers.Since(r.GR()); {
		case since < 33 || since > printers.Newest:
			t.Errorf("%s: cells since 1.%d", r.GR(), since)
		case since > 33:
			later[r.GR().String()] = since
		}
	}
	for name, want := range map[string]int{"pods": 35, "nodes": 36, "storageclasses.storage.k8s.io": 37, "jobs.batch": 34} {
		if later[name] != want {
			t.Errorf("%s: cells since 1.%d, want 1.%d", name, later[name], want)
		}
	}
	if len(later) != 9 {
		t.Errorf("the kinds whose cells changed are %v", later)
	}
	if got := printers.Since(schema.GroupResource{Resource: "configmaps"}); got != 33 {
		t.Errorf("configmaps: cells since 1.%d", got)
	}
}
