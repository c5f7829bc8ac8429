package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func volumeTable() kinds.Table {
	spec, status := corev1.PersistentVolumeSpec{}, corev1.PersistentVolumeStatus{}
	return table.Of(volumeCells, append(
		[]table.Column{
			table.Name(), table.Str("Capacity", table.Doc(spec, "capacity")),
			table.Str("Access Modes", table.Doc(spec, "accessModes")),
			table.Str("Reclaim Policy", table.Doc(spec, "persistentVolumeReclaimPolicy")),
			table.Str("Status", table.Doc(status, "phase")),
			table.Str("Claim", table.Doc(spec, "claimRef")), table.Str("StorageClass", "StorageClass of the pv"),
			table.Str("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
			table.Str("Reason", table.Doc(status, "reason")), table.Age(),
		},
		table.Wide(table.Str("VolumeMode", table.Doc(spec, "volumeMode")))...)...)
}

func volumeCells(o *corev1.PersistentVolume, r table.Meta) []any {
	claim := ""
	if c := o.Spec.ClaimRef; c != nil {
		claim = c.Namespace + "/" + c.Name
	}
	capacity := o.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		r.Name, capacity.String(), accessModes(o.Spec.AccessModes), string(o.Spec.PersistentVolumeReclaimPolicy),
		string(phase(o.Status.Phase, o.DeletionTimestamp != nil)), claim, className(o.Annotations, o.Spec.StorageClassName),
		table.Text(o.Spec.VolumeAttributesClassName, "<unset>"), o.Status.Reason, r.Age, table.Text(o.Spec.VolumeMode, "<unset>"),
	}
}

func claimTable() kinds.Table {
	spec, status := corev1.PersistentVolumeClaimSpec{}, corev1.PersistentVolumeClaimStatus{}
	return table.Of(claimCells, append(
		[]table.Column{
			table.Name(), table.Str("Status", table.Doc(status, "phase")), table.Str("Volume", table.Doc(spec, "volumeName")),
			table.Str("Capacity", table.Doc(status, "capacity")), table.Str("Access Modes", table.Doc(status, "accessModes")),
			table.Str("StorageClass", "StorageClass of the pvc"),
			table.Str("VolumeAttributesClass", "VolumeAttributesClass of the pvc"), table.Age(),
		},
		table.Wide(table.Str("VolumeMode", table.Doc(spec, "volumeMode")))...)...)
}

func claimCells(o *corev1.PersistentVolumeClaim, r table.Meta) []any {
	capacity, modes := "", ""
	if o.Spec.VolumeName != "" {
		q := o.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = q.String(), accessModes(o.Status.AccessModes)
	}
	return []any{
		r.Name, string(phase(o.Status.Phase, o.DeletionTimestamp != nil)), o.Spec.VolumeName, capacity, modes,
		className(o.Annotations, table.Deref(o.Spec.StorageClassName)), table.Text(o.Spec.VolumeAttributesClassName, "<unset>"),
		r.Age, table.Text(o.Spec.VolumeMode, "<unset>"),
	}
}

// className returns the storage class; the annotation that was there before the field has
// precedence.
func className(annotations map[string]string, class string) string {
	if old, has := annotations[corev1.BetaStorageClassAnnotation]; has {
		return old
	}
	return class
}

func phase[P ~string](p P, deleting bool) P {
	if deleting {
		return "Terminating"
	}
	return p
}

// accessModes returns the short names of the modes, in the order in which kubectl shows
// them.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, known := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, known.mode) {
			short = append(short, known.short)
		}
	}
	return strings.Join(short, ",")
}
