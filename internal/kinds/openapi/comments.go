package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// commentsText is what the Go comments of Kubernetes say that neither its types nor their
// SwaggerDoc have: the values of enumerations, defaults, unions, and descriptions. The test
// TestCommentsAreUpstreams in conformance/builtin compares it with Kubernetes' own definitions,
// and writes it with -update.
//
//go:embed comments.json
var commentsText []byte

// comments are those of all types, by the names of their definitions.
type comments struct {
	Enums map[string]enum         `json:"enums"`
	Types map[string]typeComments `json:"types"`
}

// enum has the description of each value of an enumeration.
type enum map[string]string

type typeComments struct {
	Description string                   `json:"description,omitempty"`
	Unions      []any                    `json:"unions,omitempty"`
	Fields      map[string]fieldComments `json:"fields,omitempty"`
}

type fieldComments struct {
	Description string `json:"description,omitempty"`
	Default     any    `json:"default,omitempty"`
}

func readComments() comments {
	var c comments
	if err := json.Unmarshal(commentsText, &c); err != nil {
		panic(fmt.Sprintf("comments.json: %v", err)) // it is part of the program
	}
	return c
}

// apply adds the values to a schema, and to its description if it has one.
func (e enum) apply(schema object, description string) object {
	if len(e) == 0 {
		return withDescription(schema, description)
	}
	values := slices.Sorted(maps.Keys(e))
	schema["enum"] = values
	if description == "" {
		return schema // of items: that of the list stands alone
	}
	var out strings.Builder
	out.WriteString(description + "\n\nPossible enum values:")
	for _, value := range values {
		fmt.Fprintf(&out, "\n - `%q`", value)
		if text := e[value]; text != "" {
			out.WriteString(" " + text)
		}
	}
	schema["description"] = out.String()
	return schema
}
