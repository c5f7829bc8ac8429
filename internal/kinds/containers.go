package kinds

import "strings"

// Namespaces names the resource whose objects others live in.
func Namespaces() GroupResource { return GroupResource{Resource: "namespaces"} }

// Definitions names the resource whose objects define custom resources.
func Definitions() GroupResource {
	return GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
}

// IsNamespace reports whether the resource's objects are namespaces.
func (r *Resource) IsNamespace() bool { return r.GR() == Namespaces() }

// IsDefinition reports whether the resource's objects are CustomResourceDefinitions.
func (r *Resource) IsDefinition() bool { return r.GR() == Definitions() }

// DefinedBy splits the name of a definition, "foos.example.com", into the resource that
// it defines.
func DefinedBy(definition string) GroupResource {
	plural, group, _ := strings.Cut(definition, ".")
	return GroupResource{Group: group, Resource: plural}
}
