// Package media reads the headers of requests that name media types and codings.
//
// A [Range] is one element of an Accept header.
package media

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// The media types of bodies.
const (
	JSON     = "application/json"
	YAML     = "application/yaml"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// Range is one element of an Accept header.
type Range struct {
	Name   string
	Params map[string]string

	q float64
}

// Accepted returns the elements of the Accept headers of a request, the preferred first.
// It leaves out elements that cannot be parsed.
func Accepted(r *http.Request) []Range {
	var ranges []Range
	for _, header := range r.Header.Values("Accept") {
		for element := range strings.SplitSeq(header, ",") {
			if element == JSON { // what most clients send
				ranges = append(ranges, Range{Name: JSON, q: 1})
				continue
			}
			name, params, err := mime.ParseMediaType(withoutEmpty(element))
			if err != nil {
				continue
			}
			m := Range{Name: name, Params: params, q: 1}
			if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
				m.q = q
			}
			if m.q > 0 {
				ranges = append(ranges, m)
			}
		}
	}
	slices.SortStableFunc(ranges, func(a, b Range) int {
		return cmp.Or(cmp.Compare(b.q, a.q), cmp.Compare(a.wildcards(), b.wildcards()))
	})
	return ranges
}

// withoutEmpty returns an element without parameters that have an empty value, such as
// "drop=", which mime refuses and upstream ignores.
func withoutEmpty(element string) string {
	element = strings.TrimSpace(element)
	if !strings.Contains(element, "=;") && !strings.HasSuffix(element, "=") {
		return element
	}
	parts := strings.Split(element, ";")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		return strings.HasSuffix(strings.TrimSpace(part), "=")
	}), ";")
}

// wildcards is how much a range leaves open. What says more is preferred, as by upstream
// (goautoneg).
func (m Range) wildcards() int { return strings.Count(m.Name, "*") }

// AcceptsGzip reports whether the client accepts an answer that is compressed by gzip.
func AcceptsGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(header, ",") {
			name, q, _ := strings.Cut(strings.TrimSpace(coding), ";")
			if strings.TrimSpace(name) == "gzip" && strings.TrimSpace(q) != "q=0" {
				return true
			}
		}
	}
	return false
}

// Of returns the media type of a request's body without its parameters; JSON when the
// header is missing. Errors: 415.
func Of(r *http.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" || header == JSON {
		return JSON, nil
	}
	name, _, err := mime.ParseMediaType(header)
	if err != nil {
		return "", wire.UnsupportedMediaType(Bodies(nil))
	}
	return name, nil
}

// Bodies returns the media types that a body may have; r is nil for bodies that are not of
// a resource, such as DeleteOptions.
func Bodies(r *kinds.Resource) []string {
	if r != nil && r.Protobuf == nil {
		return []string{JSON, YAML}
	}
	return []string{JSON, YAML, Protobuf}
}
