package controllerruntime

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// The two versions of a Shop: in v2 what it sells is in an object of its own.
type shopV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   shop `json:"spec"`
	Status shop `json:"status"`
}

type shopV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Content shop `json:"content"`
	} `json:"spec"`
	Status shop `json:"status"`
}

type shop struct {
	Of string `json:"of,omitempty"`
}

type shopV2List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []shopV2 `json:"items"`
}

func (*shopV1) Hub() {}

func (s *shopV1) DeepCopyObject() runtime.Object {
	other := *s
	s.DeepCopyInto(&other.ObjectMeta)
	return &other
}

func (s *shopV2) DeepCopyObject() runtime.Object {
	other := *s
	s.DeepCopyInto(&other.ObjectMeta)
	return &other
}

func (l *shopV2List) DeepCopyObject() runtime.Object {
	other := *l
	other.Items = nil
	for i := range l.Items {
		other.Items = append(other.Items, *l.Items[i].DeepCopyObject().(*shopV2)) //nolint:forcetypeassert // it is one
	}
	return &other
}

func (s *shopV2) ConvertTo(hub conversion.Hub) error {
	to, is := hub.(*shopV1)
	if !is {
		return fmt.Errorf("the hub is a %T", hub)
	}
	to.ObjectMeta, to.Spec, to.Status = s.ObjectMeta, s.Spec.Content, s.Status
	return nil
}

func (s *shopV2) ConvertFrom(hub conversion.Hub) error {
	from, is := hub.(*shopV1)
	if !is {
		return fmt.Errorf("the hub is a %T", hub)
	}
	s.ObjectMeta, s.Spec.Content, s.Status = from.ObjectMeta, from.Spec, from.Status
	return nil
}

func shopScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	v1, v2 := schema.GroupVersion{Group: "example.org", Version: "v1"}, schema.GroupVersion{Group: "example.org", Version: "v2"}
	s.AddKnownTypeWithName(v1.WithKind("Shop"), &shopV1{})
	s.AddKnownTypeWithName(v2.WithKind("Shop"), &shopV2{})
	s.AddKnownTypeWithName(v2.WithKind("ShopList"), &shopV2List{})
	metav1.AddToGroupVersion(s, v1)
	metav1.AddToGroupVersion(s, v2)
	return s, corev1.AddToScheme(s)
}

const (
	shopOperator  = client.FieldOwner("shops")
	shopFinalizer = "example.org/shops"
)

// shops keeps a ConfigMap for each Shop, all by server-side apply.
type shops struct{ client client.Client }

func (r *shops) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var s shopV2
	if err := r.client.Get(ctx, req.NamespacedName, &s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.DeletionTimestamp != nil {
		note := corev1ac.ConfigMap(req.Name+"-was-here", req.Namespace)
		if err := r.client.Apply(ctx, note, shopOperator, client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
		// A configuration without the finalizer gives it up.
		return ctrl.Result{}, gone(r.client.Apply(ctx, configuration(&s), shopOperator, client.ForceOwnership))
	}
	owned := configuration(&s, shopFinalizer)
	if err := r.client.Apply(ctx, owned, shopOperator, client.ForceOwnership); err != nil {
		return ctrl.Result{}, gone(err)
	}
	child := corev1ac.ConfigMap(req.Name, req.Namespace).WithData(map[string]string{"of": s.Spec.Content.Of}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("example.org/v2").WithKind("Shop").
			WithName(s.Name).WithUID(s.UID).WithController(true).WithBlockOwnerDeletion(true))
	if err := r.client.Apply(ctx, child, shopOperator, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	status := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v2", "kind": "Shop", "metadata": map[string]any{"name": req.Name, "namespace": req.Namespace},
		"status": map[string]any{"of": s.Spec.Content.Of},
	}}
	return ctrl.Result{}, gone(r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), shopOperator,
		client.ForceOwnership))
}

// gone ignores that an object was deleted since it was read: with its uid an apply is
// refused, and does not create it again.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// configuration is what the operator wants of a Shop's metadata. The uid keeps an apply from
// creating again what is gone.
func configuration(s *shopV2, finalizers ...any) runtime.ApplyConfiguration {
	metadata := map[string]any{"name": s.Name, "namespace": s.Namespace, "uid": string(s.UID)}
	if len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v2", "kind": "Shop", "metadata": metadata,
	}})
}
