package upstream

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gapless-io/gapless/internal/wire"
)

// resourcePrefix begins every key of upstream's tests.
const resourcePrefix = "/pods/"

// place is what a key of upstream says: the pod "/pods/ns/name", or "/pods/name"
// without a namespace, or the collection "/pods/ns" of a recursive request.
type place struct {
	namespace, name string
}

func (p place) key() wire.Key { return wire.Key{Namespace: p.namespace, Name: p.name} }

// placeOf reads the key of one object. Errors are upstream's (storage.PrepareKey).
func placeOf(key string) (place, error) {
	prepared, err := storage.PrepareKey(resourcePrefix, key, false)
	if err != nil {
		return place{}, err
	}
	rest := strings.TrimPrefix(prepared, resourcePrefix)
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		return place{namespace: rest[:i], name: rest[i+1:]}, nil
	}
	return place{name: rest}, nil
}

// collectionOf reads the key of a recursive request; "" is all namespaces.
func collectionOf(key string) (place, error) {
	prepared, err := storage.PrepareKey(resourcePrefix, key, true)
	if err != nil {
		return place{}, err
	}
	return place{namespace: strings.TrimSuffix(strings.TrimPrefix(prepared, resourcePrefix), "/")}, nil
}

// refusal returns the error that a client gets for err, as for an in-process caller:
// without the kind of a body.
func refusal(err error) error {
	status := wire.StatusOf(err)
	status.TypeMeta = metav1.TypeMeta{}
	return &apierrors.StatusError{ErrStatus: status}
}
