package wire_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/wire"
)

// Upstream's validation quotes all names of a list for each that is wrong.
func TestAnswersQuoteLargeListsNotForEachError(t *testing.T) {
	var names []string
	for range 50_000 {
		names = append(names, "name")
	}
	var errs field.ErrorList
	for i := range 90 {
		errs = append(errs, field.Invalid(field.NewPath("spec").Index(i), names, "must be others"))
	}
	errs = append(errs, field.Invalid(field.NewPath("small"), field.OmitValueType{}, "is omitted"))
	status := wire.StatusOf(wire.Invalid(schema.GroupKind{Kind: "A"}, "a", errs))
	quoted := func(text string) int { return strings.Count(text, `"name"`) } // old versions of the library write lists as Go
	if first := status.Details.Causes[0].Message; quoted(first) != len(names) {
		t.Errorf("the first error does not have its value: %.200s", first)
	}
	if n := quoted(status.Message); n > 2*len(names) {
		t.Errorf("%d names are quoted, of a list of %d", n, len(names))
	}
	if last := status.Details.Causes[len(errs)-1].Message; last != "Invalid value: is omitted" {
		t.Errorf("an error without a value is %q", last)
	}
	if got, want := status.Details.Causes[80].Message, `Invalid value: "...": must be others`; got != want {
		t.Errorf("a later error is %q, want %q", got, want)
	}
}
