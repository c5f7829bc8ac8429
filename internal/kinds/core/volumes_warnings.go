package core

import (
	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnPersistentVolume warns about a PersistentVolume.
func warnPersistentVolume(o, _ *corev1.PersistentVolume) []string {
	var l warn.List
	l.Annotation(nil, o.Annotations, corev1.BetaStorageClassAnnotation, oldStorageClass)
	l.Annotation(nil, o.Annotations, corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`)
	if o.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		l.At(field.NewPath("spec", "persistentVolumeReclaimPolicy"),
			"The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := o.Spec.NodeAffinity; a != nil && a.Required != nil {
		for i := range a.Required.NodeSelectorTerms {
			l.Term(
				field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms").Index(i),
				&a.Required.NodeSelectorTerms[i],
				false,
			)
		}
	}
	for _, old := range []struct {
		is        bool
		name, why string
	}{
		{o.Spec.CephFS != nil, "cephfs", podspec.GoneIn31},
		{o.Spec.PhotonPersistentDisk != nil, "photonPersistentDisk", podspec.GoneIn16},
		{o.Spec.ScaleIO != nil, "scaleIO", podspec.GoneIn22},
		{o.Spec.StorageOS != nil, "storageOS", podspec.GoneIn25},
		{o.Spec.Glusterfs != nil, "glusterfs", podspec.GoneIn26},
		{o.Spec.RBD != nil, "rbd", podspec.GoneIn31},
	} {
		if old.is {
			l.At(field.NewPath("spec", old.name), "%s", old.why)
		}
	}
	return l.Texts()
}

// oldStorageClass is said about the annotation for a storage class.
const oldStorageClass = `deprecated since v1.8; use "storageClassName" attribute instead`

// warnPersistentVolumeClaim warns about a PersistentVolumeClaim.
func warnPersistentVolumeClaim(o, _ *corev1.PersistentVolumeClaim) []string {
	var l warn.List
	l.Annotation(nil, o.Annotations, corev1.BetaStorageClassAnnotation, oldStorageClass)
	podspec.WarnClaim(&l, func() *field.Path { return field.NewPath("spec") }, &o.Spec)
	return l.Texts()
}
