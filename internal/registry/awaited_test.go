package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/wire"
)

// Each write is wrong in a way that its next step would find.
func TestAWriteEndsBetweenItsStepsWhenItsClientHasLeft(t *testing.T) {
	var leave context.CancelFunc
	p := &reviewer{}
	s := reviewed(t, p)
	s.create(s.at("configmaps", "default"), configMap("a"))
	p.heard()
	p.admit = func(context.Context, admission.Attributes, func() error) error {
		leave()
		return nil
	}
	target := by(s.at("configmaps", "default", "a"))
	const wrong = `{"data":{"not a key!":"x"}}`
	whole := func(name string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},` + wrong[1:]
	}
	writes := map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := s.Create(ctx, by(s.at("configmaps", "default")), []byte(whole("b")), metav1.CreateOptions{})
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := s.Update(ctx, target, []byte(whole("a")), metav1.UpdateOptions{})
			return err
		},
		"merge patch": func(ctx context.Context) error {
			_, err := s.Patch(ctx, target, wire.Patch{Type: types.MergePatchType, Body: []byte(wrong)}, metav1.PatchOptions{})
			return err
		},
		"apply": func(ctx context.Context) error {
			_, err := s.Patch(ctx, target, wire.Patch{Type: types.ApplyYAMLPatchType, Body: []byte(whole("a"))},
				metav1.PatchOptions{FieldManager: "m"})
			return err
		},
	}
	for name, write := range writes {
		var ctx context.Context
		ctx, leave = context.WithCancel(t.Context())
		err := write(ctx)
		for _, asked := range p.heard() {
			if strings.HasPrefix(asked, "validate") {
				t.Errorf("%s: asked to %s after the client had left", name, asked)
			}
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want what has ended the request", name, err)
		}
	}
	p.admit = nil
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.Patch(left, target,
		wire.Patch{Type: types.JSONPatchType, Body: []byte(`[{"op":"test","path":"/none","value":1}]`)},
		metav1.PatchOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a patch that cannot be applied, of a client that has left: %v", err)
	}
	if asked := p.heard(); len(asked) > 0 {
		t.Errorf("asked %s for a client that has left", asked)
	}
	if o := s.get(target); strings.Contains(string(o.JSON()), "not a key") {
		t.Errorf("a write of a client that has left is stored: %s", o.JSON())
	}
}
