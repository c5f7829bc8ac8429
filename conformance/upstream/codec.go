package upstream

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// writtenAs is the annotation under which an object keeps the namespace and name
// that it came with. gapless refuses an object whose name is not that of its key;
// some of upstream's tests write such objects, because they look at other things.
const writtenAs = "conformance.gapless.io/written-as"

// codec turns upstream's objects into stored bytes and back.
type codec struct {
	runtime.Codec
	versioner storage.APIObjectVersioner

	// mu guards transformer.
	mu          sync.Mutex
	transformer value.Transformer
}

func newCodec() (*codec, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{example.AddToScheme, examplev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the example types: %w", err)
		}
	}
	return &codec{
		Codec:       serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion),
		transformer: identity.NewEncryptCheckTransformer(),
	}, nil
}

// swap replaces the transformer, through which every value is written and
// read, and returns the previous one.
func (c *codec) swap(t value.Transformer) value.Transformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.transformer
	c.transformer = t
	return old
}

func (c *codec) current() value.Transformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transformer
}

// encode returns the stored form of obj, which is left as it is: without
// resourceVersion, under the name of its place. plain is the same before the
// transformer.
func (c *codec) encode(ctx context.Context, p place, obj runtime.Object) (plain, stored []byte, err error) {
	obj = obj.DeepCopyObject()
	if err := c.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, nil, fmt.Errorf("prepare %s: %w", p.key(), err)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare %s: %w", p.key(), err)
	}
	if accessor.GetNamespace() != p.namespace || accessor.GetName() != p.name {
		annotations := accessor.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[writtenAs] = accessor.GetNamespace() + "/" + accessor.GetName()
		accessor.SetAnnotations(annotations)
		accessor.SetNamespace(p.namespace)
		accessor.SetName(p.name)
	}
	plain, err = runtime.Encode(c.Codec, obj)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", p.key(), err)
	}
	if plain, err = canonical(plain); err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", p.key(), err)
	}
	stored, err = c.current().TransformToStorage(ctx, plain, value.DefaultContext(p.key().String()))
	if err != nil {
		return nil, nil, fmt.Errorf("transform %s: %w", p.key(), err)
	}
	return plain, stored, nil
}

// canonical is the form in which the registry stores, and in which a replica reads from etcd.
func canonical(plain []byte) ([]byte, error) {
	tree, err := jsontree.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return wire.Canonical(tree)
}

// decode reads a stored value into out and gives it its resourceVersion. stale
// says that the transformer wants it written again.
func (c *codec) decode(ctx context.Context, name string, stored []byte, out runtime.Object) (stale bool, err error) {
	plain, stale, err := c.current().TransformFromStorage(ctx, stored, value.DefaultContext(name))
	if err != nil {
		return false, fmt.Errorf("transform %s: %w", name, err)
	}
	return stale, c.read(plain, out)
}

// read decodes what encode has made.
func (c *codec) read(plain []byte, out runtime.Object) error {
	if _, _, err := c.Decode(plain, nil, out); err != nil {
		return fmt.Errorf("decode %.200s: %w", plain, err)
	}
	accessor, err := meta.Accessor(out)
	if err != nil {
		return fmt.Errorf("decode %.200s: %w", plain, err)
	}
	annotations := accessor.GetAnnotations()
	written, renamed := annotations[writtenAs]
	if !renamed {
		return nil
	}
	namespace, name, _ := strings.Cut(written, "/")
	accessor.SetNamespace(namespace)
	accessor.SetName(name)
	if delete(annotations, writtenAs); len(annotations) == 0 {
		annotations = nil
	}
	accessor.SetAnnotations(annotations)
	return nil
}
