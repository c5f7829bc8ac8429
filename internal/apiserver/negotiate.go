package apiserver

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// The media types of bodies.
const (
	mediaJSON     = "application/json"
	mediaYAML     = "application/yaml"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
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

// rendering is the form in which a client wants an answer.
type rendering struct {
	format  format
	shape   shape
	version string // of meta.k8s.io, for tables and partial objects
	pretty  bool
	gzip    bool
}

// mediaRange is one element of an Accept header.
type mediaRange struct {
	name   string
	params map[string]string
	q      float64
}

// parseAccept returns the elements of an Accept header, the preferred first.
// Elements that cannot be parsed are passed over, as if the client had not sent
// them.
func parseAccept(headers []string) []mediaRange {
	var ranges []mediaRange
	for _, header := range headers {
		for element := range strings.SplitSeq(header, ",") {
			name, params, err := mime.ParseMediaType(strings.TrimSpace(element))
			if err != nil {
				continue
			}
			m := mediaRange{name: name, params: params, q: 1}
			if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
				m.q = q
			}
			if m.q > 0 {
				ranges = append(ranges, m)
			}
		}
	}
	slices.SortStableFunc(ranges, func(a, b mediaRange) int { return cmp.Compare(b.q, a.q) })
	return ranges
}

// negotiate picks the first form that the client accepts and we have. Errors:
// 406 with the list of what there is.
func negotiate(r *http.Request, v verb) (rendering, error) {
	into := rendering{
		pretty: wantsPretty(r),
		gzip:   v != verbWatch && acceptsGzip(r),
	}
	headers := r.Header.Values("Accept")
	ranges := parseAccept(headers)
	if len(ranges) == 0 && strings.Join(headers, "") == "" {
		return into, nil
	}
	for _, m := range ranges {
		if into.accept(m, v) {
			return into, nil
		}
	}
	if v == verbWatch {
		return into, kube.NotAcceptable([]string{mediaJSON + ";stream=watch"})
	}
	return into, kube.NotAcceptable([]string{mediaJSON, mediaYAML})
}

// accept takes the form of m if we have it. A protobuf form is never had; every
// client that asks for one also takes JSON (ecosystem.md 0.1).
func (into *rendering) accept(m mediaRange, v verb) bool {
	switch m.name {
	case mediaJSON, "application/*", "*/*":
		into.format = formatJSON
	case mediaYAML:
		if v == verbWatch {
			return false
		}
		into.format = formatYAML
	default:
		return false
	}
	as, asked := m.params["as"]
	if !asked {
		return true
	}
	into.version = m.params["v"]
	if m.params["g"] != "meta.k8s.io" || into.version != "v1" && into.version != "v1beta1" {
		return false
	}
	switch {
	case as == "Table" && (v == verbGet || v == verbList || v == verbWatch):
		into.shape = shapeTable
	case as == "PartialObjectMetadata" && (v == verbGet || v == verbWatch), as == "PartialObjectMetadataList" && v == verbList:
		into.shape = shapePartial
	default:
		return false
	}
	return true
}

// wantsPretty says whether a person is likely to read the answer: ?pretty, or a
// browser or curl (apiserver negotiation.go isPrettyPrint).
func wantsPretty(r *http.Request) bool {
	q := r.URL.Query()
	if q.Has("pretty") {
		return kube.ParseBool(q, "pretty")
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func acceptsGzip(r *http.Request) bool {
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

// mediaType returns the media type of a body without its parameters; JSON when
// the header is missing.
func mediaType(r *http.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON, nil
	}
	name, _, err := mime.ParseMediaType(header)
	if err != nil {
		return "", kube.UnsupportedMediaType(bodyTypes(nil))
	}
	return name, nil
}

// bodyTypes are the media types that a body of the resource may have.
func bodyTypes(r *schema.Resource) []string {
	if r != nil && r.Custom {
		return []string{mediaJSON, mediaYAML}
	}
	return []string{mediaJSON, mediaYAML, mediaProtobuf}
}
