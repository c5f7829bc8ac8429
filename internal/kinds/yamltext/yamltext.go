// Package yamltext converts YAML to JSON within a bound on the result.
//
// A document is the YAML text of one value. ToJSON refuses
// duplicate keys in it, ToJSONWithDuplicates reports them.
package yamltext

import (
	"bytes"
	"fmt"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// SizeError says that a document would be larger than the limit as JSON.
type SizeError struct {
	Limit int // bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("the object has more than %d bytes as JSON", e.Limit)
}

// ToJSON converts a document to JSON of at most limit bytes, or not much more where
// the text has many characters that JSON escapes. Errors: *SizeError, and those of the
// YAML library.
func ToJSON(document []byte, limit int) ([]byte, error) {
	if err := check(document, limit, yamlv2.UnmarshalStrict); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(document)
}

// ToJSONWithDuplicates is ToJSON for a document that may have duplicate keys, of which the
// last one counts. It returns what ToJSON says about them, nil if there are none.
func ToJSONWithDuplicates(document []byte, limit int) (text []byte, duplicates, err error) {
	if text, duplicates = ToJSON(document, limit); duplicates == nil {
		return text, nil, nil
	}
	if err := check(document, limit, yamlv2.Unmarshal); err != nil {
		return nil, nil, err
	}
	text, err = yaml.YAMLToJSON(document)
	return text, duplicates, err
}

// Lines returns what an error about duplicate keys says, one text for each: upstream makes a warning
// of each line.
func Lines(duplicates error) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimPrefix(duplicates.Error(), "yaml: unmarshal errors:\n"), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// check refuses a document that would be larger than limit as JSON.
func check(document []byte, limit int, decode func([]byte, any) error) error {
	// In memory aliases of a text share it, in JSON each of them is a copy, so the size is
	// counted before. Without an alias the JSON is not much larger than the document.
	if bytes.IndexByte(document, '*') >= 0 || len(document) > limit {
		var tree any
		if err := decode(document, &tree); err != nil {
			return err
		}
		if size(tree) > limit {
			return &SizeError{Limit: limit}
		}
	}
	return nil
}

// size is the least size that a decoded document has as JSON.
func size(tree any) (bytes int) {
	switch v := tree.(type) {
	case map[any]any:
		for name, value := range v {
			bytes += size(name) + size(value) + len(":,")
		}
	case []any:
		for _, item := range v {
			bytes += size(item) + len(",")
		}
	case string:
		return len(v)
	}
	return bytes + 1
}
