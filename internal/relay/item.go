package relay

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/internal/wire/texts"
)

// item is an object as the reflector holds it: the same one as in the watch cache.
type item struct {
	object *wire.Object
	rv     string
}

func newItem(o *wire.Object) *item { return &item{object: o, rv: o.ResourceVersion().String()} }

// GetNamespace implements informer.Object, as do the following methods.
func (i *item) GetNamespace() string         { return i.object.Key().Namespace }
func (i *item) GetName() string              { return i.object.Key().Name }
func (i *item) GetUID() types.UID            { return i.object.UID() }
func (i *item) GetResourceVersion() string   { return i.rv }
func (i *item) GetLabels() map[string]string { return i.object.Labels() }

// What makes an object one that cannot be mirrored.
var (
	errNoUID     = errors.New("the object has no metadata.uid")
	errNoVersion = errors.New("the object's resourceVersion is not a positive decimal number")
)

// decoder returns what reads the objects of a collection. Texts that many objects have are
// held once.
func decoder(fields []wire.FieldPath, shared *texts.Set) func(raw []byte) (*item, error) {
	return func(raw []byte) (*item, error) {
		o, err := wire.ParseObject(raw, fields)
		switch {
		case err != nil:
			return nil, err
		case o.UID() == "":
			return nil, errNoUID
		case o.ResourceVersion() == 0:
			return nil, errNoVersion
		}
		return newItem(o.Share(shared)), nil
	}
}
