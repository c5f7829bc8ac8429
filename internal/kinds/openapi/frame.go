package openapi

import (
	"encoding/json"
	"fmt"

	"github.com/google/gnostic-models/compiler"
	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// Frame is what stands around the fragments of a document: Begin, the paths of all
// fragments, Middle, their definitions, End. Between two of them is Separator.
type Frame struct {
	Begin, Middle, End []byte
	Separator          []byte
}

// Frame returns the frame of a document of version 2 whose paths and definitions have these sizes. That
// of version 3 is [Frame3].
func (form Form) Frame(pathsBytes, definitionsBytes int) (Frame, error) {
	head := object{"swagger": "2.0", "info": object{"title": "Kubernetes", "version": "gapless"}}
	params, err := json.Marshal(sharedParameters())
	if err != nil {
		return Frame{}, fmt.Errorf("encode the parameters: %w", err)
	}
	if form == JSON {
		begin, err := members(head)
		if err != nil {
			return Frame{}, fmt.Errorf("encode the head: %w", err)
		}
		return Frame{
			Begin:  append(append([]byte("{"), begin...), `,"paths":{`...),
			Middle: []byte(`},"definitions":{`), End: append(append([]byte(`},"parameters":`), params...), '}'),
			Separator: []byte(","),
		}, nil
	}
	head["paths"], head["parameters"] = object{}, sharedParameters()
	n, err := nodeOf(head)
	if err != nil {
		return Frame{}, err
	}
	doc, err := openapiv2.NewDocument(n, compiler.NewContextWithExtensions("$root", n, nil, nil))
	if err != nil {
		return Frame{}, fmt.Errorf("head in protobuf: %w", err)
	}
	doc.Paths = nil
	begin, err := proto.Marshal(doc)
	if err != nil {
		return Frame{}, fmt.Errorf("head in protobuf: %w", err)
	}
	return Frame{Begin: append(begin, field(pathsField, pathsBytes)...), Middle: field(definitionsField, definitionsBytes)}, nil
}
