package plugins

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

//nolint:gochecknoglobals // a constant
var namespaces = kinds.GroupResource{Resource: "namespaces"}

// Namespace returns a namespace. Errors: 404 if there is none, 500 if it cannot be read.
func Namespace(of Cluster, name string) (*wire.Object, error) {
	if err := of.UnknownOf(namespaces, "", name); err != nil { // before the look
		return nil, wire.Internal(err)
	}
	if o := of.Find(namespaces, wire.Key{Name: name}); o != nil {
		return o, nil
	}
	return nil, wire.NotFound(namespaces, name)
}

// Annotations returns the annotations of a stored object.
func Annotations(o *wire.Object) (map[string]string, error) {
	var read metav1.PartialObjectMetadata
	if err := json.Unmarshal(o.JSON(), &read); err != nil {
		return nil, wire.Internal(err)
	}
	return read.Annotations, nil
}
