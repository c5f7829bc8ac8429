package printers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resources "github.com/gapless-io/gapless/internal/kinds"
)

// column is one column of a table. Names, types and descriptions are those of
// kubernetes pkg/printers/internalversion/printers.go AddHandlers: clients show them.
type column = metav1.TableColumnDefinition

// name is the column with the name of the object.
func name() column { return resources.NameColumn() }

// age is the column with the time since the creation.
func age() column { return str("Age", doc(metav1.ObjectMeta{}, "creationTimestamp")) }

// str is a column of text.
func str(name, about string) column { return column{Name: name, Type: "string", Description: about} }

// integer is a column of numbers.
func integer(name, about string) column {
	return column{Name: name, Type: "integer", Description: about}
}

// boolean is a column of true and false.
func boolean(name, about string) column {
	return column{Name: name, Type: "boolean", Description: about}
}

// date is a column of moments.
func date(name, about string) column { return column{Name: name, Type: "date", Description: about} }

// wide makes kubectl show the columns only with `-o wide`.
func wide(columns ...column) []column {
	for i := range columns {
		columns[i].Priority = 1
	}
	return columns
}

// createdAt are the columns of kinds that show when an object was created, and not its
// age.
func createdAt() []column {
	return []column{name(), date("Created At", doc(metav1.ObjectMeta{}, "creationTimestamp"))}
}

// containerColumns are the names and images of the containers in a pod template.
func containerColumns() []column {
	return []column{
		str("Containers", "Names of each container in the template."),
		str("Images", "Images referenced by each container in the template."),
	}
}

// doc returns the documentation of a field of an API type, which describes the column
// that shows it.
func doc(of interface{ SwaggerDoc() map[string]string }, field string) string {
	return of.SwaggerDoc()[field]
}
