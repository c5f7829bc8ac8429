package printers

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

func storage(resource string) (Printer, bool) {
	switch resource {
	case "persistentvolumes":
		return volumes(), true
	case "persistentvolumeclaims":
		return claims(), true
	case "storageclasses.storage.k8s.io":
		return storageClasses(), true
	case "volumeattachments.storage.k8s.io":
		return attachments(), true
	case "csinodes.storage.k8s.io":
		return of(func(o *storagev1.CSINode, r row) []any {
			return []any{r.name, int64(len(o.Spec.Drivers)), r.age}
		}, name(), integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), age()), true
	case "csistoragecapacities.storage.k8s.io":
		// Upstream has a printer with more columns, and does not use it (registry/storage/csistoragecapacity).
		return of(createdCells, createdAt()...), true
	case "volumeattributesclasses.storage.k8s.io":
		return of(func(o *storagev1.VolumeAttributesClass, r row) []any { return []any{r.name, o.DriverName, r.age} },
			name(), str("DriverName", doc(storagev1.VolumeAttributesClass{}, "driverName")), age()), true
	case "csidrivers.storage.k8s.io":
		spec := storagev1.CSIDriverSpec{}
		return of(driverCells, name(),
			boolean("AttachRequired", doc(spec, "attachRequired")), boolean("PodInfoOnMount", doc(spec, "podInfoOnMount")),
			boolean("StorageCapacity", doc(spec, "storageCapacity")), str("TokenRequests", doc(spec, "tokenRequests")),
			boolean("RequiresRepublish", doc(spec, "requiresRepublish")), str("Modes", doc(spec, "volumeLifecycleModes")), age()), true
	}
	return Printer{}, false
}

func volumes() Printer {
	spec, status := corev1.PersistentVolumeSpec{}, corev1.PersistentVolumeStatus{}
	return of(volumeCells, append(
		[]column{
			name(), str("Capacity", doc(spec, "capacity")), str("Access Modes", doc(spec, "accessModes")),
			str("Reclaim Policy", doc(spec, "persistentVolumeReclaimPolicy")), str("Status", doc(status, "phase")),
			str("Claim", doc(spec, "claimRef")), str("StorageClass", "StorageClass of the pv"),
			str("VolumeAttributesClass", "VolumeAttributesClass of the pv"), str("Reason", doc(status, "reason")), age(),
		},
		wide(str("VolumeMode", doc(spec, "volumeMode")))...)...)
}

func volumeCells(o *corev1.PersistentVolume, r row) []any {
	claim := ""
	if c := o.Spec.ClaimRef; c != nil {
		claim = c.Namespace + "/" + c.Name
	}
	capacity := o.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		r.name, capacity.String(), accessModes(o.Spec.AccessModes), string(o.Spec.PersistentVolumeReclaimPolicy),
		string(phase(o.Status.Phase, o.DeletionTimestamp != nil)), claim, className(o.Annotations, o.Spec.StorageClassName),
		text(o.Spec.VolumeAttributesClassName, "<unset>"), o.Status.Reason, r.age, text(o.Spec.VolumeMode, "<unset>"),
	}
}

func claims() Printer {
	spec, status := corev1.PersistentVolumeClaimSpec{}, corev1.PersistentVolumeClaimStatus{}
	return of(claimCells, append(
		[]column{
			name(), str("Status", doc(status, "phase")), str("Volume", doc(spec, "volumeName")),
			str("Capacity", doc(status, "capacity")), str("Access Modes", doc(status, "accessModes")),
			str("StorageClass", "StorageClass of the pvc"), str("VolumeAttributesClass", "VolumeAttributesClass of the pvc"), age(),
		},
		wide(str("VolumeMode", doc(spec, "volumeMode")))...)...)
}

func claimCells(o *corev1.PersistentVolumeClaim, r row) []any {
	capacity, modes := "", ""
	if o.Spec.VolumeName != "" {
		q := o.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = q.String(), accessModes(o.Status.AccessModes)
	}
	return []any{
		r.name, string(phase(o.Status.Phase, o.DeletionTimestamp != nil)), o.Spec.VolumeName, capacity, modes,
		className(o.Annotations, deref(o.Spec.StorageClassName)), text(o.Spec.VolumeAttributesClassName, "<unset>"),
		r.age, text(o.Spec.VolumeMode, "<unset>"),
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

// storageClasses marks the default class in lists only: it depends on the other classes.
func storageClasses() Printer {
	class := storagev1.StorageClass{}
	p := of(classCells, name(), str("Provisioner", doc(class, "provisioner")), str("ReclaimPolicy", doc(class, "reclaimPolicy")),
		str("VolumeBindingMode", doc(class, "volumeBindingMode")), str("AllowVolumeExpansion", doc(class, "allowVolumeExpansion")), age())
	p.ListRow = func(items iter.Seq2[*wire.Object, error]) func(*wire.Object) []any {
		marked := defaultClass(items)
		return func(o *wire.Object) []any {
			cells := p.Row(o)
			if marked != "" && o.Key().Name == marked {
				cells[0] = marked + " (default)"
			}
			return cells
		}
	}
	return p
}

// defaultClass returns the name of the class that claims without a class get: of those
// that say that they are the default, the newest one. An error ends the list, whose
// writer reports it.
func defaultClass(items iter.Seq2[*wire.Object, error]) string {
	var newest *wire.Object
	for o, err := range items {
		if err != nil {
			break
		}
		if !saysDefault(o) {
			continue
		}
		if newest == nil || o.Created().After(newest.Created()) ||
			o.Created().Equal(newest.Created()) && o.Key().Name < newest.Key().Name {
			newest = o
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Key().Name
}

// saysDefault reports whether a class says that it is the default.
func saysDefault(o *wire.Object) bool {
	var class metav1.PartialObjectMetadata
	if err := json.Unmarshal(o.JSON(), &class); err != nil {
		return false
	}
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

func classCells(o *storagev1.StorageClass, r row) []any {
	return []any{
		r.name, o.Provisioner, text(o.ReclaimPolicy, "Delete"), text(o.VolumeBindingMode, "Immediate"),
		deref(o.AllowVolumeExpansion), r.age,
	}
}

func attachments() Printer {
	spec := storagev1.VolumeAttachmentSpec{}
	attacher := str("Attacher", doc(spec, "attacher"))
	attacher.Format = "name"
	return of(func(o *storagev1.VolumeAttachment, r row) []any {
		return []any{r.name, o.Spec.Attacher, deref(o.Spec.Source.PersistentVolumeName), o.Spec.NodeName, o.Status.Attached, r.age}
	}, name(), attacher, str("PV", doc(storagev1.VolumeAttachmentSource{}, "persistentVolumeName")),
		str("Node", doc(spec, "nodeName")), boolean("Attached", doc(storagev1.VolumeAttachmentStatus{}, "attached")), age())
}

func driverCells(o *storagev1.CSIDriver, r row) []any {
	audiences := "<unset>"
	if o.Spec.TokenRequests != nil {
		var names []string
		for _, request := range o.Spec.TokenRequests {
			names = append(names, request.Audience)
		}
		audiences = strings.Join(names, ",")
	}
	var modes []string
	for _, mode := range o.Spec.VolumeLifecycleModes {
		modes = append(modes, string(mode))
	}
	attach := o.Spec.AttachRequired == nil || *o.Spec.AttachRequired
	return []any{
		r.name, attach, deref(o.Spec.PodInfoOnMount), deref(o.Spec.StorageCapacity), audiences, deref(o.Spec.RequiresRepublish),
		orNone(strings.Join(modes, ",")), r.age,
	}
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
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, known.mode) {
			short = append(short, known.short)
		}
	}
	return strings.Join(short, ",")
}
