package schema

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/kube"
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
func DefaultRow(o *kube.Object, now time.Time) []any {
	return []any{o.Key().Name, Age(o.Created(), now)}
}

// Age is the time from then to now as kubectl shows it ("79s", "5d3h");
// "<unknown>" for the zero time and "<invalid>" for the future.
func Age(then, now time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}
