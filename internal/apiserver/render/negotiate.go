package render

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/kube"
)

// format is how an answer is encoded, shape what is encoded.
type format int

const (
	formatJSON format = iota
	formatYAML
)

type shape int

const (
	shapeObject shape = iota
	shapeTable
	shapePartial // PartialObjectMetadata, or a list of them
)

// Form is the form in which a client wants an answer: as JSON or YAML, of whole objects,
// tables or metadata, indented, compressed. The zero value is plain JSON.
type Form struct {
	format  format
	shape   shape
	version string // of meta.k8s.io, for tables and partial objects
	pretty  bool
	gzip    bool
}

// Negotiate returns the first form that the client accepts and the server has. Errors:
// 406 with the list of the media types that the server has.
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
		if into.accept(m, v) {
			return into, nil
		}
	}
	if v == route.Watch {
		return into, kube.NotAcceptable([]string{media.JSON + ";stream=watch"})
	}
	return into, kube.NotAcceptable([]string{media.JSON, media.YAML})
}

// accept takes the form of m if the server has it. It has no protobuf form; every
// client that asks for one also accepts JSON (ecosystem.md 0.1).
func (into *Form) accept(m media.Range, v route.Verb) bool {
	switch m.Name {
	case media.JSON, "application/*", "*/*":
		into.format = formatJSON
	case media.YAML:
		if v == route.Watch {
			return false
		}
		into.format = formatYAML
	default:
		return false
	}
	as, asked := m.Params["as"]
	if !asked {
		return true
	}
	into.version = m.Params["v"]
	if m.Params["g"] != "meta.k8s.io" || into.version != "v1" && into.version != "v1beta1" {
		return false
	}
	many := v == route.List || v == route.DeleteCollection
	switch {
	case as == "Table":
		into.shape = shapeTable
	case as == "PartialObjectMetadata" && !many, as == "PartialObjectMetadataList" && many:
		into.shape = shapePartial
	default:
		return false
	}
	return true
}

// wantsPretty reports whether to indent the answer: by ?pretty, or because a browser or curl
// asks (apiserver negotiation.go isPrettyPrint).
func wantsPretty(r *http.Request, q url.Values) bool {
	if q.Has("pretty") {
		return kube.ParseBool(q, "pretty")
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

// Indented is JSON for a person, not compressed.
func Indented() Form { return Form{pretty: true} }

// Uncompressed returns a form without compression.
func Uncompressed(f Form) Form {
	f.gzip = false
	return f
}
