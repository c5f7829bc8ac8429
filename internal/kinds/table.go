package kinds

import (
	"iter"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/internal/wire"
)

// Table is how the objects of a resource are shown as rows.
type Table struct {
	// Columns are the columns of a Table, without the object.
	Columns []metav1.TableColumnDefinition
	// Row computes the cells of one object in the order of Columns: text, numbers, booleans,
	// nil, and Ago for ages.
	Row func(o *wire.Object) []any
	// Rows identifies Row among those that this group, version and resource has had: what
	// equal ones compute of an object is equal. It is "" for a built-in kind.
	Rows string
	// RowsSince is the first minor version of kube-apiserver 1 whose cells of a built-in kind are
	// those of Row. Columns can be the same although cells are not.
	RowsSince int
	// ListRow returns the Row of the items of a list, for a kind whose rows depend on the
	// other rows. It ranges over items before the rows are computed; nil: it is Row.
	ListRow func(items iter.Seq2[*wire.Object, error]) func(o *wire.Object) []any
	// RowConditions returns what a row says besides its cells; nil: nothing.
	RowConditions func(o *wire.Object) []metav1.TableRowCondition
}

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
