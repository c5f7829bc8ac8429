package swagger

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/apiserver/compress"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// The media types of the protobuf form: kube-openapi pkg/handler. Clients ask for
// the older one, kubectl 1.20 as well as today's, and are answered with the newer one.
const (
	protobufOlder = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	protobufNewer = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// Accepted returns the media types that a request may accept.
func Accepted() []string { return []string{media.JSON, protobufNewer, protobufOlder} }

// Negotiate returns the form that a request prefers, 0 if it accepts none: 406. A request
// without an Accept header gets JSON.
func Negotiate(r *http.Request) openapi.Form {
	if r.Header.Get("Accept") == "" {
		return openapi.JSON
	}
	// mime.ParseMediaType, which media.Accepted uses, refuses the @ of the older type.
	for _, m := range ranges(r) {
		switch m {
		case media.JSON, "application/*", "*/*":
			return openapi.JSON
		case protobufOlder, protobufNewer:
			return openapi.Protobuf
		}
	}
	return 0
}

// AcceptsJSON reports whether a request accepts the only form of OpenAPI v3. All clients ask for JSON;
// upstream has protobuf too.
func AcceptsJSON(r *http.Request) bool {
	return r.Header.Get("Accept") == "" || slices.ContainsFunc(ranges(r), func(name string) bool {
		return name == media.JSON || name == "application/*" || name == "*/*"
	})
}

// ranges returns the media types of the Accept headers, the preferred first.
func ranges(r *http.Request) []string {
	clone := &http.Request{Header: http.Header{}}
	for _, header := range r.Header.Values("Accept") {
		clone.Header.Add("Accept", strings.ReplaceAll(header, "spec.v2@v1.0", "spec.v2.v1.0"))
	}
	var names []string
	for _, m := range media.Accepted(clone) {
		names = append(names, m.Name)
	}
	return names
}

// Document is an OpenAPI document in one form. It is immutable.
type Document struct {
	catalog *kinds.Catalog
	behind  []*aggregator.Swagger // whose servers' documents are in it
	form    openapi.Form
	etag    string
	blocks  []*blockzip.Block
	// resources are those that a document of version 3 is about.
	resources []*kinds.Resource
}

// hash is the part of the tag that is in the addresses of documents of version 3.
func (d *Document) hash() string { return strings.Trim(d.etag, `"`) }

// Size returns the size of the document, and of its compressed form, which is kept.
func (d *Document) Size() (plain, compressed int64) {
	for _, b := range d.blocks {
		p, c := b.Size()
		plain, compressed = plain+p, compressed+c
	}
	return plain, compressed
}

// ServeHTTP answers GET and HEAD with the document, or 304.
func (d *Document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Accept")
	compress.Varies(h)
	h.Set("Etag", d.etag)
	if matches(r.Header.Values("If-None-Match"), d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", media.JSON)
	if d.form == openapi.Protobuf {
		h.Set("Content-Type", protobufNewer)
	}
	zip := media.AcceptsGzip(r)
	if zip {
		h.Set("Content-Encoding", "gzip")
	} else {
		plain, _ := d.Size()
		h.Set("Content-Length", strconv.FormatInt(plain, 10))
	}
	if r.Method == http.MethodHead {
		return
	}
	if zip {
		s := blockzip.NewStream(w)
		for _, b := range d.blocks {
			s.Block(b)
		}
		_ = s.Close() // the client has left
		return
	}
	for _, b := range d.blocks {
		if _, err := b.WriteTo(w); err != nil {
			return // as above
		}
	}
}

// matches reports whether If-None-Match has the tag: RFC 9110 13.1.2.
func matches(headers []string, etag string) bool {
	for _, header := range headers {
		for tag := range strings.SplitSeq(header, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == etag || tag == "*" {
				return true
			}
		}
	}
	return false
}
