package table

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Column is one column of a table. Names, types and descriptions are those of
// kubernetes pkg/printers/internalversion/printers.go AddHandlers: clients show them.
type Column = metav1.TableColumnDefinition

// Name is the column with the name of the object.
func Name() Column { return kinds.NameColumn() }

// Age is the column with the time since the creation.
func Age() Column { return Str("Age", Doc(metav1.ObjectMeta{}, "creationTimestamp")) }

// Str is a column of text.
func Str(name, about string) Column { return Column{Name: name, Type: "string", Description: about} }

// Integer is a column of numbers.
func Integer(name, about string) Column {
	return Column{Name: name, Type: "integer", Description: about}
}

// Boolean is a column of true and false.
func Boolean(name, about string) Column {
	return Column{Name: name, Type: "boolean", Description: about}
}

// Date is a column of moments.
func Date(name, about string) Column { return Column{Name: name, Type: "date", Description: about} }

// Wide makes kubectl show the columns only with `-o wide`.
func Wide(columns ...Column) []Column {
	for i := range columns {
		columns[i].Priority = 1
	}
	return columns
}

// createdAt are the columns of kinds that show when an object was created, and not its
// age.
func createdAt() []Column {
	return []Column{Name(), Date("Created At", Doc(metav1.ObjectMeta{}, "creationTimestamp"))}
}

// Doc returns the documentation of a field of an API type, which describes the column
// that shows it.
func Doc(of interface{ SwaggerDoc() map[string]string }, field string) string {
	return of.SwaggerDoc()[field]
}
