package printers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

func storage(resource string) (Printer, bool) {
	switch resource {
	case "persistentvolumes":
		return of("Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*", volumeCells), true
	case "persistentvolumeclaims":
		return of("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*", claimCells), true
	case "storageclasses.storage.k8s.io":
		return of("Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", classCells), true
	}
	return Printer{}, false
}

func volumeCells(o *corev1.PersistentVolume, r row) []any {
	claim := ""
	if c := o.Spec.ClaimRef; c != nil {
		claim = c.Namespace + "/" + c.Name
	}
	capacity := o.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		r.name, capacity.String(), accessModes(o.Spec.AccessModes), string(o.Spec.PersistentVolumeReclaimPolicy),
		string(phase(o.Status.Phase, o.DeletionTimestamp != nil)), claim, o.Spec.StorageClassName,
		text(o.Spec.VolumeAttributesClassName, "<unset>"), o.Status.Reason, r.age, text(o.Spec.VolumeMode, "<unset>"),
	}
}

func claimCells(o *corev1.PersistentVolumeClaim, r row) []any {
	capacity, modes := "", ""
	if o.Spec.VolumeName != "" {
		q := o.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = q.String(), accessModes(o.Status.AccessModes)
	}
	return []any{
		r.name, string(phase(o.Status.Phase, o.DeletionTimestamp != nil)), o.Spec.VolumeName, capacity, modes,
		deref(o.Spec.StorageClassName), text(o.Spec.VolumeAttributesClassName, "<unset>"), r.age, text(o.Spec.VolumeMode, "<unset>"),
	}
}

func classCells(o *storagev1.StorageClass, r row) []any {
	name := r.name
	if o.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
		name += " (default)"
	}
	return []any{
		name, o.Provisioner, text(o.ReclaimPolicy, "Delete"), text(o.VolumeBindingMode, "Immediate"),
		deref(o.AllowVolumeExpansion), r.age,
	}
}

func phase[P ~string](p P, deleting bool) P {
	if deleting {
		return "Terminating"
	}
	return p
}

func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	short := make([]string, len(modes))
	for i, m := range modes {
		switch m {
		case corev1.ReadWriteOnce:
			short[i] = "RWO"
		case corev1.ReadOnlyMany:
			short[i] = "ROX"
		case corev1.ReadWriteMany:
			short[i] = "RWX"
		case corev1.ReadWriteOncePod:
			short[i] = "RWOP"
		default:
			short[i] = string(m)
		}
	}
	return strings.Join(short, ",")
}
