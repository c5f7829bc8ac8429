package render

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/wire"
)

// format is how an answer is encoded, shape what is encoded.
type format int

const (
	formatJSON format = iota
	formatYAML
	formatProtobuf
)

type shape int

const (
	shapeObject shape = iota
	shapeTable
	shapePartial // PartialObjectMetadata, or a list of them
	shapes
)

// Form is the form in which a client wants an answer: as JSON, YAML or protobuf, of whole
// objects, tables or metadata, without managed fields, indented, compressed. The zero value
// is plain JSON.
type Form struct {
	format  format
	shape   shape
	version string // of meta.k8s.io, for tables and partial objects
	drops   bool   // without metadata.managedFields
	pretty  bool
	gzip    bool
}

// IsTable reports whether objects are shown as rows of a table.
func (into *Form) IsTable() bool { return into.shape == shapeTable }

// IsProtobuf reports whether the answer is in protobuf.
func (into *Form) IsProtobuf() bool { return into.format == formatProtobuf }

// Negotiate returns the first form that the client accepts and the server has, in the order
// of upstream's (apiserver handlers/negotiation). Errors: 406 with the list of the media
// types that the server has.
func Negotiate(r *http.Request, rt *route.Route) (Form, error) {
	v := rt.Verb
	into := Form{
		pretty: wantsPretty(r, rt.Query),
		gzip:   v != route.Watch && media.AcceptsGzip(r),
	}
	headers := r.Header.Values("Accept")
	ranges := media.Accepted(r)
	if len(ranges) == 0 && strings.Join(headers, "") == "" {
		return into, nil
	}
	for _, m := range ranges {
		if into.accept(m, rt) {
			return into, nil
		}
	}
	if yaml := func(m media.Range) bool { return m.Name == media.YAML }; v == route.Watch && slices.ContainsFunc(ranges, yaml) {
		return into, wire.NotAcceptable([]string{media.JSON + streamed, media.Protobuf + streamed})
	}
	return into, wire.NotAcceptable([]string{media.JSON, media.YAML, media.Protobuf})
}

// streamed is the parameter of the media type of a watch.
const streamed = ";stream=watch"

// accept takes the form of m if the server has it.
func (into *Form) accept(m media.Range, rt *route.Route) bool {
	f, known := formatOf(m)
	if !known || f == formatYAML && rt.Verb == route.Watch {
		return false
	}
	if stream := m.Params["stream"]; stream != "" && (stream != "watch" || f == formatYAML) {
		return false
	}
	if version := m.Params["sv"]; version != "" && version != "v1" {
		return false
	}
	shaped, version, ok := shapeOf(m, rt.Verb)
	switch {
	case !ok, f == formatProtobuf && shaped == shapeTable:
		return false
	case f == formatProtobuf && shaped == shapeObject && (rt.Resource == nil || rt.Resource.Protobuf == nil):
		return false
	}
	drops, ok := dropsOf(m)
	if !ok {
		return false
	}
	into.format, into.shape, into.version, into.drops = f, shaped, version, drops
	return true
}

// dropsOf reports whether a media type asks for objects without metadata.managedFields
// (KEP-5958), which is all that can be dropped (apiserver negotiation.go
// acceptMediaTypeOptions). It is not ok to drop anything else.
func dropsOf(m media.Range) (drops, ok bool) {
	switch m.Params["drop"] {
	case "":
		return false, true
	case "metadata.managedFields":
		return true, true
	}
	return false, false
}

// formatOf returns the format that a media type means.
func formatOf(m media.Range) (f format, known bool) {
	switch m.Name {
	case media.JSON, "application/*", "*/*":
		return formatJSON, true
	case media.YAML:
		return formatYAML, true
	case media.Protobuf:
		return formatProtobuf, true
	}
	return 0, false
}

// shapeOf returns what the parameters of a media type ask for, and the version of it.
func shapeOf(m media.Range, v route.Verb) (s shape, version string, ok bool) {
	as, asked := m.Params["as"]
	version = m.Params["v"]
	if !asked && m.Params["g"] == "" && version == "" {
		return shapeObject, "", true
	}
	if m.Params["g"] != "meta.k8s.io" || version != "v1" && version != "v1beta1" {
		return 0, "", false
	}
	many := v == route.List || v == route.DeleteCollection
	switch {
	case as == "Table":
		return shapeTable, version, true
	case as == "PartialObjectMetadata" && !many, as == "PartialObjectMetadataList" && many:
		return shapePartial, version, true
	}
	return 0, "", false
}

// wantsPretty reports whether to indent the answer: by ?pretty, or because a browser or curl
// asks (apiserver negotiation.go isPrettyPrint).
func wantsPretty(r *http.Request, q url.Values) bool {
	if q.Has("pretty") {
		return wire.ParseBool(q, "pretty")
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// Plain is the form of answers that are not objects: JSON, or YAML if the client prefers
// it.
func Plain(r *http.Request) Form {
	into := Form{pretty: wantsPretty(r, r.URL.Query()), gzip: media.AcceptsGzip(r)}
	if ranges := media.Accepted(r); len(ranges) > 0 && ranges[0].Name == media.YAML {
		into.format = formatYAML
	}
	return into
}

// Failed is the form of a Status that refuses a request: the first that the client accepts
// without another shape of it, or JSON; not compressed.
func Failed(r *http.Request) Form {
	into := Form{pretty: wantsPretty(r, r.URL.Query())}
	for _, m := range media.Accepted(r) {
		f, known := formatOf(m)
		_, droppable := dropsOf(m)
		if s, _, ok := shapeOf(m, route.Get); known && ok && s == shapeObject && droppable {
			into.format = f
			break
		}
	}
	return into
}

// Indented is JSON for a person, not compressed.
func Indented() Form { return Form{pretty: true} }
