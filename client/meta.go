package client

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// Meta identifies an object and its version.
type Meta struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string // opaque text, as the server wrote it
}

// MetaOf reads the metadata of an object, in JSON or in protobuf, and skips
// everything else: about a tenth of the cost of decoding a pod. Errors:
// *kube.DecodeError.
func MetaOf(object []byte) (Meta, error) {
	if IsProtobuf(object) {
		e, err := OpenEnvelope(object)
		if err != nil {
			return Meta{}, err
		}
		return e.meta()
	}
	var o struct {
		Metadata struct {
			Namespace       string    `json:"namespace"`
			Name            string    `json:"name"`
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &o, lenient()); err != nil {
		return Meta{}, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	return Meta(o.Metadata), nil
}

// bookmarkEnds reports whether a bookmark is the one that ends the initial events
// (KEP-3157).
func bookmarkEnds(object []byte) (bool, error) {
	if IsProtobuf(object) {
		e, err := OpenEnvelope(object)
		if err != nil {
			return false, err
		}
		return e.annotated(metav1.InitialEventsAnnotationKey, "true")
	}
	var o struct {
		Metadata struct {
			Annotations struct {
				End string `json:"k8s.io/initial-events-end"`
			} `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &o, lenient()); err != nil {
		return false, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	return o.Metadata.Annotations.End == "true", nil
}

// lenient is as strict about syntax as encoding/json, no more: what API servers
// stored before they checked for duplicates must stay readable.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
