package builtin_test

import (
	"slices"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func TestKindsSaySinceWhenTheirCellsAreAsTheyAre(t *testing.T) {
	later := map[string]int{}
	for _, r := range builtin.Catalog().Resources() {
		switch since := r.RowsSince; {
		case since < table.Oldest || since > table.Newest:
			t.Errorf("%s: cells since 1.%d", r.GR(), since)
		case since > table.Oldest:
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
}

// Upstream validates metadata by a function of its own (core validation.ValidateObjectMeta) which refuses
// bare names, except for these kinds.
func TestFinalizersNeedADomainExceptOfAdmissionAndSixKinds(t *testing.T) {
	others := []string{"APIService", "CustomResourceDefinition", "Event", "Lease", "PodDisruptionBudget", "RuntimeClass"}
	for _, r := range builtin.Catalog().Resources() {
		want := kinds.DomainFinalizers
		if r.Group == "admissionregistration.k8s.io" || slices.Contains(others, r.Kind) {
			want = kinds.AnyFinalizers
		}
		if r.Finalizers != want {
			t.Errorf("%s: finalizers by rule %d, want %d", r.GR(), r.Finalizers, want)
		}
	}
}

func TestOnlyStorageClassesDependOnTheirList(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		if depends := r.GR().String() == "storageclasses.storage.k8s.io"; depends != (r.ListRow != nil) {
			t.Errorf("%s: its rows depend on their list: %t, want %t", r.GR(), r.ListRow != nil, depends)
		}
	}
}

func BenchmarkCatalog(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		builtin.Catalog()
	}
}
