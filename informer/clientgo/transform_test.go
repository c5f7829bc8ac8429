package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// keeping returns a TransformFunc that makes a new object with that of the metadata.
func keeping(keep func(metav1.ObjectMeta) metav1.ObjectMeta) cache.TransformFunc {
	return func(o any) (any, error) {
		c, is := o.(*corev1.ConfigMap)
		if !is {
			return o, nil
		}
		return &corev1.ConfigMap{ObjectMeta: keep(c.ObjectMeta), Data: c.Data}, nil
	}
}

// transforms are functions that drop metadata to save memory, as programs do.
func transforms() map[string]cache.TransformFunc {
	return map[string]cache.TransformFunc{
		"everything": keeping(func(m metav1.ObjectMeta) metav1.ObjectMeta { return m }),
		"UID": keeping(func(m metav1.ObjectMeta) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID}
		}),
		"version": keeping(func(m metav1.ObjectMeta) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, ResourceVersion: m.ResourceVersion}
		}),
		"name": keeping(func(m metav1.ObjectMeta) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}
		}),
		"name, in place": func(o any) (any, error) {
			if c, is := o.(*corev1.ConfigMap); is {
				c.ObjectMeta = metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}
			}
			return o, nil
		},
	}
}

func TestATransformMayDropUIDAndResourceVersion(t *testing.T) {
	for kept, transform := range transforms() {
		for name, script := range scripts() {
			t.Run(fmt.Sprintf("kept %s/%s", kept, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFakeServer()
					script[0].do(w)
					p := newPair(t, w, 0)
					for _, i := range []cache.SharedIndexInformer{p.theirs, p.ours} {
						if err := i.SetTransform(transform); err != nil {
							t.Fatalf("set the transform: %v", err)
						}
					}
					run(t, func() {
						for n, s := range script {
							if n > 0 {
								s.do(w)
							}
							p.compareObjects(t, s.what)
							if a, b := p.ours.LastSyncResourceVersion(), storeVersion(p.ours.GetIndexer()); b != "" && a != b {
								t.Errorf("%s: the informer is at %s, its store at %s", s.what, a, b)
							}
						}
					}, p.theirs, p.ours)
				})
			})
		}
	}
}
