// Package storage has admission plugins for volumes, their claims and classes.
package storage

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

//nolint:gochecknoglobals // names
var (
	claims           = kinds.GroupResource{Resource: "persistentvolumeclaims"}
	volumes          = kinds.GroupResource{Resource: "persistentvolumes"}
	classes          = kinds.GroupResource{Group: storagev1.GroupName, Resource: "storageclasses"}
	attributeClasses = kinds.GroupResource{Group: storagev1.GroupName, Resource: "volumeattributesclasses"}
)

// The annotations that make a StorageClass the default one.
const (
	isDefault     = "storageclass.kubernetes.io/is-default-class"
	wasCalledBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// Classes returns the table of StorageClasses for the plugins. Its best one is the default class, of several the newest
// (pkg/volume/util GetDefaultClass).
func Classes() *plugins.Table[storagev1.StorageClass] {
	return plugins.NewTable(classes, func(a, b *storagev1.StorageClass) bool {
		switch {
		case b == nil:
			return a.Annotations[isDefault] == "true" || a.Annotations[wasCalledBeta] == "true"
		case a.CreationTimestamp.Equal(&b.CreationTimestamp):
			return a.Name < b.Name
		}
		return a.CreationTimestamp.After(b.CreationTimestamp.Time)
	})
}

// DefaultStorageClass is upstream's plugin of this name: new claims that name no class get the default one.
func DefaultStorageClass(of *plugins.Table[storagev1.StorageClass]) plugins.Plugin {
	return plugins.Plugin{
		Name:     "DefaultStorageClass",
		Concerns: []plugins.Concern{{Resource: claims, Operations: []upstream.Operation{upstream.Create}}},
		Admit: func(_ context.Context, w *plugins.Write) error {
			spec, err := plugins.Spec(w.Object)
			if err != nil {
				return err
			}
			if _, has := w.Object.GetAnnotations()[corev1.BetaStorageClassAnnotation]; has || spec["storageClassName"] != nil {
				return nil
			}
			class, err := of.Best()
			if err != nil {
				return err
			}
			if class != nil {
				spec["storageClassName"] = class.Name
			}
			return nil
		},
	}
}

// PersistentVolumeClaimResize is upstream's plugin of this name: only a bound claim grows, and only if its class allows
// it.
func PersistentVolumeClaimResize(of *plugins.Table[storagev1.StorageClass]) plugins.Plugin {
	return plugins.Plugin{
		Name:     "PersistentVolumeClaimResize",
		Concerns: []plugins.Concern{{Resource: claims, Operations: []upstream.Operation{upstream.Update}}},
		Validate: func(_ context.Context, w *plugins.Write) error {
			if size := sizeOf(w.Object); size.Cmp(sizeOf(w.Old)) <= 0 {
				return nil
			}
			if phase, _, _ := unstructured.NestedString(w.Old.Object, "status", "phase"); phase != string(corev1.ClaimBound) {
				return upstream.NewForbidden(w, errors.New("Only bound persistent volume claims can be expanded")) //nolint:staticcheck // upstream's text
			}
			name := classOf(w.Object)
			class, err := of.Get(wire.Key{Name: name})
			if err != nil {
				return err
			}
			if class == nil || name == "" || name != classOf(w.Old) ||
				class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
				return upstream.NewForbidden(w, errors.New("only dynamically provisioned pvc can be resized and "+
					"the storageclass that provisions the pvc must support resize"))
			}
			return nil
		},
	}
}

// sizeOf returns what a claim requests, 0 if nothing that can be read: the rules of the kind report that.
func sizeOf(claim *unstructured.Unstructured) resource.Quantity {
	text, _, _ := unstructured.NestedString(claim.Object, "spec", "resources", "requests", string(corev1.ResourceStorage))
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return size
}

// classOf returns the class of a claim, "" if it names none.
func classOf(claim *unstructured.Unstructured) string {
	if name, has := claim.GetAnnotations()[corev1.BetaStorageClassAnnotation]; has {
		return name
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName") // a wrong type is no name
	return name
}

// InUseName is the name of ObjectInUseProtection.
const InUseName = "StorageObjectInUseProtection"

// ObjectInUseProtection is upstream's plugin StorageObjectInUseProtection: new claims, volumes and classes of attributes
// get the finalizer with which controllers keep them while they are used.
func ObjectInUseProtection() plugins.Plugin {
	finalizers := map[kinds.GroupResource]string{
		claims:           "kubernetes.io/pvc-protection",
		volumes:          "kubernetes.io/pv-protection",
		attributeClasses: "kubernetes.io/vac-protection",
	}
	p := plugins.Plugin{
		Name: InUseName,
		Admit: func(_ context.Context, w *plugins.Write) error {
			finalizer := finalizers[w.GetResource().GroupResource()]
			has := w.Object.GetFinalizers()
			if slices.Contains(has, finalizer) {
				return nil
			}
			w.Object.SetFinalizers(append(has, finalizer))
			return nil
		},
	}
	for of := range finalizers {
		p.Concerns = append(p.Concerns, plugins.Concern{Resource: of, Operations: []upstream.Operation{upstream.Create}})
	}
	return p
}
