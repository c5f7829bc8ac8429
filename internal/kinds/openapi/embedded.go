package openapi

import "slices"

// embedded completes the schemas of the objects that are embedded anywhere in the schema of a custom
// resource (apiextensions pkg/controller/openapi/builder addEmbeddedProperties): add adds
// apiVersion, kind and metadata to a schema, unless that must not have them. So their metadata is
// merged as that of every object is, and validated by kubectl.
func embedded(def object, add func(def object) bool) {
	if props, ok := def["properties"].(object); ok {
		for _, p := range props {
			if p, ok := p.(object); ok {
				embedded(p, add)
			}
		}
	}
	for _, below := range []string{"items", "additionalProperties"} {
		if s, ok := def[below].(object); ok {
			embedded(s, add)
		}
	}
	if def["x-kubernetes-embedded-resource"] != true || !add(def) {
		return
	}
	required, _ := def["required"].([]any)
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(required, any(name)) {
			required = append(required, name)
		}
	}
	def["required"] = required
}

// embeddedHeads are the schemas of apiVersion and kind of an embedded object, with upstream's
// descriptions.
func embeddedHeads() (apiVersion, kind object) {
	const docs = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
	return stringSchema(
			"apiVersion defines the versioned schema of this representation of an object. More info: " + docs + "#resources"),
		stringSchema(
			"kind is a string value representing the type of this object. In CamelCase. More info: " + docs + "#types-kinds")
}
