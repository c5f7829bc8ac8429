package client

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gapless-io/gapless/kube"
	jsonscan "github.com/gapless-io/gapless/kube/scan"
)

// Form is the encoding of objects that a client asks for in lists and watches. The zero
// value is JSON, with whole objects.
type Form struct {
	// Protobuf asks for Kubernetes' protobuf encoding, or JSON if the server does not
	// support it for the resource; [IsProtobuf] tells them apart.
	Protobuf bool
	// Metadata asks for metadata only, as metav1.PartialObjectMetadata. An answer with
	// whole objects is refused.
	Metadata bool
	// Typed adds kind and apiVersion to the items of lists in JSON: servers omit them for
	// built-in kinds. They are derived from the list's, which must precede the items.
	Typed bool
}

// As returns a copy of c that asks for another form. They share their connections.
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

// encodingOf refuses the answer of a proxy or of a misdirected request.
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

// checkKind refuses a kind other than the requested one, if one was requested.
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
	in := jsonscan.Scanner{Data: object, MaxDepth: maxDepth}
	if in.Peek() != '{' {
		return ""
	}
	more, err := in.Enter('}')
	for more && err == nil {
		var name, value jsonscan.Token
		if name, err = in.Key(); err != nil {
			break
		}
		in.Peek()
		begin := in.Pos
		if value, err = in.Skip(); err != nil {
			break
		}
		if string(object[name.Start:name.End]) == "kind" {
			if value.Kind != jsonscan.KindString {
				return ""
			}
			kind, err := jsontext.AppendUnquote(nil, object[begin:in.Pos])
			if err != nil {
				return ""
			}
			return string(kind)
		}
		more, err = in.Next('}')
	}
	return ""
}

// maxDepth is how deeply JSON may be nested: encoding/json's own limit.
const maxDepth = 10000

// appendTyped appends an item with the kind and the apiVersion of its list in front, or the item
// itself if it has a kind.
func appendTyped(to, item []byte, listKind, apiVersion string) []byte {
	kind, isList := strings.CutSuffix(listKind, "List")
	if !isList || kind == "" || len(item) == 0 || item[0] != '{' || kindOf(item) != "" {
		return append(to, item...)
	}
	to = fmt.Appendf(to, `{"apiVersion":%q,"kind":%q`, apiVersion, kind)
	rest := bytes.TrimLeft(item[1:], " \t\r\n")
	if len(rest) > 0 && rest[0] != '}' {
		to = append(to, ',')
	}
	return append(to, rest...)
}
