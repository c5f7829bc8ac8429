package fieldmanager

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/kinds/yamltext"
	"github.com/gapless-io/gapless/internal/wire"
)

// Configuration is what a client applies. It is not changed.
type Configuration struct {
	Object  *unstructured.Unstructured
	Manager string
	Force   bool // takes fields from other managers
}

// Read reads the body of a patch of server-side apply, which is YAML, and JSON
// thereby. Of duplicate fields the last one counts: with FieldsWarn there is a warning, with
// FieldsStrict they are refused. Errors: 400, 413.
func Read(body []byte, v kinds.FieldValidation) (*unstructured.Unstructured, []string, error) {
	// Go clients send JSON, without anything unusual in it.
	if tree, err := jsontree.DecodePlain(body); err == nil {
		return configuration(body, tree, nil)
	}
	text, duplicates, err := yamltext.ToJSONWithDuplicates(body, kinds.MaxObjectBytes)
	if large, is := errors.AsType[*yamltext.SizeError](err); is {
		return nil, nil, wire.TooLarge("%s", large.Error())
	}
	if err != nil {
		return nil, nil, wire.BadRequest("error decoding patch: error converting YAML to JSON: %v", err)
	}
	var warnings []string
	switch {
	case duplicates != nil && v == kinds.FieldsStrict:
		return nil, nil, wire.BadRequest("error strict decoding patch: error converting YAML to JSON: %v", duplicates)
	case duplicates != nil && v == kinds.FieldsWarn:
		warnings = yamltext.Lines(duplicates)
	}
	if kinds.TooDeep(text) {
		return nil, nil, wire.BadRequest("the body is nested more than %d levels deep", kinds.MaxDepth)
	}
	tree, err := jsontree.Decode(text)
	if err != nil {
		return nil, nil, wire.BadRequest("error decoding patch: error unmarshaling JSON: while decoding JSON: %v", err)
	}
	return configuration(text, tree, warnings)
}

func configuration(text []byte, tree map[string]any, warnings []string) (*unstructured.Unstructured, []string, error) {
	if err := kinds.CheckSize(text); err != nil {
		return nil, nil, err
	}
	return &unstructured.Unstructured{Object: tree}, warnings, nil
}
