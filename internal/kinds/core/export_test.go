package printers

import "k8s.io/apimachinery/pkg/runtime/schema"

// Whole returns the printer of a resource that decodes all of an object, for those that
// decode some parts.
func Whole(resource string) Printer {
	switch resource {
	case "pods":
		return of(podCells, For(schema.ParseGroupResource(resource)).Columns...)
	case "configmaps":
		return of(configMapCells, For(schema.ParseGroupResource(resource)).Columns...)
	case "secrets":
		return of(secretCells, For(schema.ParseGroupResource(resource)).Columns...)
	}
	return For(schema.ParseGroupResource(resource))
}
