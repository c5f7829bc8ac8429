package kinds

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/internal/wire"
)

// DefaultColumns are the columns of a kind without columns of its own: name and
// age. ageType is "date" for custom resources and "string" for built-in kinds,
// as kube-apiserver has them.
func DefaultColumns(ageType string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		NameColumn(),
		{Name: "Age", Type: ageType, Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	}
}

// NameColumn is the first column of every table.
func NameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{
		Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
	}
}

// DefaultRow computes the cells of DefaultColumns.
func DefaultRow(o *wire.Object) []any {
	return []any{o.Key().Name, Age(o.Created())}
}

// Ago is a cell that depends on when it is shown: the time that has passed since Then,
// between two texts. So the cells of an object can be kept.
type Ago struct {
	Then          time.Time
	Before, After string
}

// Text returns the cell as it is shown at a time.
func (a Ago) Text(now time.Time) string { return a.Before + a.Age(now) + a.After }

// Age returns the time that has passed as kubectl shows it ("79s", "5d3h"); "<invalid>" for
// the future.
func (a Ago) Age(now time.Time) string { return duration.HumanDuration(now.Sub(a.Then)) }

// Age is the cell with the time since then; "<unknown>" for the zero time.
func Age(then time.Time) any {
	if then.IsZero() {
		return "<unknown>"
	}
	return Ago{Then: then}
}

// Shown returns cells as they are shown at a time: with text for each Ago.
func Shown(cells []any, now time.Time) []any {
	shown := slices.Clone(cells)
	for i, cell := range shown {
		if ago, is := cell.(Ago); is {
			shown[i] = ago.Text(now)
		}
	}
	return shown
}
