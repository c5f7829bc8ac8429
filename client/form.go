package client

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gapless-io/gapless/kube"
)

// Form is how a client wants the objects of lists and watches. The zero value is
// JSON of whole objects.
type Form struct {
	// Protobuf asks for Kubernetes' protobuf encoding, and for JSON where the server
	// has no other. Then objects are either; see [IsProtobuf].
	Protobuf bool
	// Metadata asks for metadata only, as metav1.PartialObjectMetadata. An answer with
	// whole objects is refused.
	Metadata bool
}

// As returns a client that asks for another form and is c otherwise.
func (c *Client) As(f Form) *Client {
	own := *c
	own.form = f
	return &own
}

// partial is the kind of an object that is metadata only.
const partial = "PartialObjectMetadata"

// accept is the header for a watch or a list. A server takes the first it has.
func (f Form) accept(kind string) string {
	as := ""
	if f.Metadata {
		as = ";as=" + kind + ";g=meta.k8s.io;v=v1"
	}
	if f.Protobuf {
		return typeProtobuf + as + ", " + typeJSON + as
	}
	return typeJSON + as
}

// encoding is how an answer is written.
type encoding int

const (
	inJSON encoding = iota
	inProtobuf
)

// encodingOf refuses what a proxy or a misdirected request brings.
func (f Form) encodingOf(resp *http.Response) (encoding, error) {
	media := mediaOf(resp)
	switch {
	case media == typeProtobuf && f.Protobuf:
		return inProtobuf, nil
	case media == "", media == typeJSON, strings.HasSuffix(media, "+json"):
		return inJSON, nil
	case media == "text/plain", media == "application/octet-stream":
		return inJSON, nil // small servers do not say what they send; the decoder will
	}
	return inJSON, &kube.DecodeError{Offset: 0, Why: fmt.Sprintf("the answer is %s, not JSON", media)}
}

func mediaOf(resp *http.Response) string {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// checkKind refuses a kind other than the one that was asked for, if one was.
func (f Form) checkKind(want, got string) error {
	if !f.Metadata || got == want {
		return nil
	}
	if got == "" {
		got = "object without kind"
	}
	return &kube.DecodeError{Offset: -1, Why: fmt.Sprintf("the answer is a %s, not the %s that was asked for", got, want)}
}

// kindOf reads an object's kind, "" if it says none.
func kindOf(object []byte) string {
	if IsProtobuf(object) {
		e, err := OpenEnvelope(object)
		if err != nil {
			return ""
		}
		return string(e.Kind)
	}
	dec := jsontext.NewDecoder(strings.NewReader(string(object)), lenient())
	if token, err := dec.ReadToken(); err != nil || token.Kind() != jsontext.KindBeginObject {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() != "kind" {
			if dec.SkipValue() != nil {
				return ""
			}
			continue
		}
		kind, err := dec.ReadToken()
		if err != nil || kind.Kind() != '"' {
			return ""
		}
		return kind.String()
	}
	return ""
}
