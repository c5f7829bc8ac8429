// Package openapi writes what OpenAPI documents say of resources, in versions 2 and 3: what
// kubectl needs for apply, for validation and for explain.
//
// A [Fragment] is what some resources add to a document: the paths and
// definitions of all built-in kinds or of one custom resource, from the Go types of the built-in
// kinds (fields, types, descriptions, patch strategies) and from the schemas of custom resources.
// A document is fragments in a [Frame], in a [Form]: version 2 has one document in JSON or
// protobuf, version 3 one for each group and version in JSON. The markers and comments of a type
// are what upstream's documents say about it and its Go fields do not. [MergeTypes] says how the
// fields of resources merge.
//
// merge.go says how fields merge in server-side apply (docs/decisions/0012).
// conformance/builtin writes markers.txt and comments.json, what documents say of Go types
// besides their fields (openapi_test.go, openapi3_test.go).
package openapi

// object is a JSON object under construction.
type object = map[string]any
