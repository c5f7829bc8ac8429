package registry_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/wire"
)

// keeper is an Allocator and a Charger that notes what becomes of writes of ConfigMaps.
type keeper struct {
	charge   func()              // is called by Charge; nil: nothing is charged
	dry      []bool              // of each Allocate
	outcomes []admission.Outcome // of what is allocated, and of what is charged
}

func (k *keeper) tell(_ context.Context, o admission.Outcome) { k.outcomes = append(k.outcomes, o) }

func (k *keeper) Allocate(_ context.Context, _, _ *unstructured.Unstructured, dryRun bool) (
	end func(context.Context, admission.Outcome), err error,
) {
	k.dry = append(k.dry, dryRun)
	return k.tell, nil
}

func (*keeper) Release(context.Context, *wire.Object) {}

func (k *keeper) Concerns(kinds.Target, upstream.Operation) bool { return k.charge != nil }

func (k *keeper) Charge(context.Context, upstream.Attributes) (settle func(context.Context, admission.Outcome), err error) {
	k.charge()
	return k.tell, nil
}

func (k *keeper) serve(t *testing.T) (s *server, at func(name string) kinds.Target) {
	t.Helper()
	log := openLog(t)
	s, _ = serveWith(t, log, registry.Config{
		Store: log, Charger: k, Allocators: map[kinds.GroupResource]registry.Allocator{{Resource: "configmaps"}: k},
	})
	return s, func(name string) kinds.Target {
		of, _ := s.live.Load().Storage(kinds.GroupResource{Resource: "configmaps"})
		return kinds.Target{Resource: of, Namespace: "default", Name: name, Caller: &user.DefaultInfo{Name: "a"}}
	}
}

// check compares the outcomes that came with those that are wanted.
func (k *keeper) check(t *testing.T, what string, want ...admission.Outcome) {
	t.Helper()
	if len(k.outcomes) != len(want) {
		t.Errorf("%s became %v, want %v", what, k.outcomes, want)
		return
	}
	for i, o := range want {
		if k.outcomes[i] != o {
			t.Errorf("%s became %v, want %v", what, k.outcomes, want)
			return
		}
	}
	k.outcomes = nil
}

// TestAWriteThatIsNotSentIsRefused: its client has left before.
func TestAWriteThatIsNotSentIsRefused(t *testing.T) {
	k := &keeper{}
	s, at := k.serve(t)
	if _, err := s.Create(t.Context(), at(""), []byte(`{"metadata":{"name":"a"}}`), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	k.check(t, "the first creation", admission.Stored)
	ctx, leave := context.WithCancel(t.Context())
	k.charge = leave
	_, err := s.Update(ctx, at("a"), []byte(`{"metadata":{"name":"a"},"data":{"a":"b"}}`), metav1.UpdateOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("update: %v", err)
	}
	k.check(t, "the update", admission.Refused, admission.Refused)
	ctx, k.charge = context.WithCancel(t.Context())
	_, err = s.Create(ctx, at(""), []byte(`{"metadata":{"name":"b"}}`), metav1.CreateOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v", err)
	}
	k.check(t, "the creation", admission.Refused, admission.Refused)
}

// TestWhatIsAllocatedForAWriteThatPanicsIsGivenBack.
func TestWhatIsAllocatedForAWriteThatPanicsIsGivenBack(t *testing.T) {
	k := &keeper{charge: func() { panic("a plugin is broken") }}
	s, at := k.serve(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing has panicked")
			}
		}()
		_, err := s.Create(t.Context(), at(""), []byte(`{"metadata":{"name":"a"}}`), metav1.CreateOptions{})
		t.Errorf("create: %v", err)
	}()
	k.check(t, "the creation", admission.Refused)
}

// TestNothingIsTakenForWhatAnUpdateRemoves.
func TestNothingIsTakenForWhatAnUpdateRemoves(t *testing.T) {
	k := &keeper{}
	s, at := k.serve(t)
	body := []byte(`{"metadata":{"name":"a","finalizers":["example.com/a"]}}`)
	if _, err := s.Create(t.Context(), at(""), body, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := s.Delete(t.Context(), at("a"), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := s.Update(t.Context(), at("a"), []byte(`{"metadata":{"name":"a"}}`), metav1.UpdateOptions{}); err != nil {
		t.Fatalf("remove the last finalizer: %v", err)
	}
	if len(k.dry) != 2 || k.dry[0] || !k.dry[1] {
		t.Errorf("allocations are dry runs: %v, want only that of the update", k.dry)
	}
}
