package growth

// why says of an operation of a dimension why it is worse than O(log n); empty if nobody has looked.
func why(dimension, operation string) string {
	const start = "start until ready"
	switch dimension + ": " + operation {
	case "objects: " + start:
		return "A start reads the log and puts every object into memory: its work is all of them."
	case "history: " + start:
		return "A start reads the log with all changes that are kept."
	case "namespaces: " + start:
		return "A start reads all of them."
	case "definitions: " + start:
		return "A start reads each of them."
	case "definitions: read discovery", "definitions: read the root of OpenAPI v3":
		return "The answer names every definition, so that its size is in proportion."
	case "definitions: create a definition":
		return "Catalogs do not change once they are made: a new definition copies the lists and maps of the one before."
	case "definitions: create a definition, and read discovery",
		"definitions: create a definition, and read the root of OpenAPI v3":
		return "The document names every definition, and is made again after each change."
	}
	return ""
}
