package openapi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/gnostic-models/compiler"
	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
)

// encodeProtobuf writes the fields of the messages Paths and Definitions. The
// messages of several fragments, one after the other, are one message.
func encodeProtobuf(paths, defs object) (f Fragment, err error) {
	node, err := nodeOf(paths)
	if err != nil {
		return f, err
	}
	all, err := openapiv2.NewPaths(node, compiler.NewContext("paths", node, nil))
	if err != nil {
		return f, fmt.Errorf("paths in protobuf: %w", err)
	}
	if f.Paths, err = proto.Marshal(all); err != nil {
		return f, fmt.Errorf("paths in protobuf: %w", err)
	}
	if node, err = nodeOf(defs); err != nil {
		return f, err
	}
	schemas, err := openapiv2.NewDefinitions(node, compiler.NewContext("definitions", node, nil))
	if err != nil {
		return f, fmt.Errorf("definitions in protobuf: %w", err)
	}
	if f.Definitions, err = proto.Marshal(schemas); err != nil {
		return f, fmt.Errorf("definitions in protobuf: %w", err)
	}
	return f, nil
}

// nodeOf turns an object into the tree that gnostic reads. Reading JSON as YAML, as
// gnostic does by itself, takes several times as long.
func nodeOf(o object) (*yaml.Node, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return node(tree), nil
}

func node(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, scalarNode("!!str", key), node(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, node(item))
		}
		return n
	case string:
		return scalarNode("!!str", v)
	case bool:
		return scalarNode("!!bool", fmt.Sprint(v))
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return scalarNode("!!float", v.String())
		}
		return scalarNode("!!int", v.String())
	default: // null
		return scalarNode("!!null", "null")
	}
}

func scalarNode(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// The numbers of the fields of the message Document: openapiv2.proto.
const (
	pathsField       = 8
	definitionsField = 9
	parametersField  = 10
)

// field begins a field of n bytes.
func field(number, n int) []byte {
	const bytesType = 2
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|bytesType), uint64(n)) //nolint:gosec // both are positive
}
