package storage

import (
	"encoding/json"
	"iter"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
	"github.com/gapless-io/gapless/internal/wire"
)

func nodeTable() kinds.Table {
	return table.Of(func(o *storagev1.CSINode, r table.Meta) []any {
		return []any{r.Name, int64(len(o.Spec.Drivers)), r.Age}
	}, table.Name(), table.Integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), table.Age())
}

func attributesClassTable() kinds.Table {
	t := table.Of(func(o *storagev1.VolumeAttributesClass, r table.Meta) []any {
		return []any{r.Name, o.DriverName, r.Age}
	},
		table.Name(), table.Str("DriverName", table.Doc(storagev1.VolumeAttributesClass{}, "driverName")), table.Age())
	t.RowsSince = 34
	return t
}

func driverTable() kinds.Table {
	spec := storagev1.CSIDriverSpec{}
	return table.Of(driverCells, table.Name(),
		table.Boolean("AttachRequired", table.Doc(spec, "attachRequired")),
		table.Boolean("PodInfoOnMount", table.Doc(spec, "podInfoOnMount")),
		table.Boolean("StorageCapacity", table.Doc(spec, "storageCapacity")),
		table.Str("TokenRequests", table.Doc(spec, "tokenRequests")),
		table.Boolean("RequiresRepublish", table.Doc(spec, "requiresRepublish")),
		table.Str("Modes", table.Doc(spec, "volumeLifecycleModes")), table.Age())
}

// classTable marks the default class in lists only: it depends on the other classes.
func classTable() kinds.Table {
	class := storagev1.StorageClass{}
	t := table.Of(
		classCells,
		table.Name(),
		table.Str("Provisioner", table.Doc(class, "provisioner")),
		table.Str("ReclaimPolicy", table.Doc(class, "reclaimPolicy")),
		table.Str(
			"VolumeBindingMode",
			table.Doc(class, "volumeBindingMode"),
		),
		table.Str("AllowVolumeExpansion", table.Doc(class, "allowVolumeExpansion")),
		table.Age(),
	)
	t.RowsSince = 37
	t.ListRow = func(items iter.Seq2[*wire.Object, error]) func(*wire.Object) []any {
		marked := defaultClass(items)
		return func(o *wire.Object) []any {
			cells := t.Row(o)
			if marked != "" && o.Key().Name == marked {
				cells[0] = marked + " (default)"
			}
			return cells
		}
	}
	return t
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

func classCells(o *storagev1.StorageClass, r table.Meta) []any {
	return []any{
		r.Name, o.Provisioner, table.Text(o.ReclaimPolicy, "Delete"), table.Text(o.VolumeBindingMode, "Immediate"),
		table.Deref(o.AllowVolumeExpansion), r.Age,
	}
}

func attachmentTable() kinds.Table {
	spec := storagev1.VolumeAttachmentSpec{}
	attacher := table.Str("Attacher", table.Doc(spec, "attacher"))
	attacher.Format = "name"
	return table.Of(
		func(o *storagev1.VolumeAttachment, r table.Meta) []any {
			return []any{
				r.Name,
				o.Spec.Attacher,
				table.Deref(o.Spec.Source.PersistentVolumeName),
				o.Spec.NodeName,
				o.Status.Attached,
				r.Age,
			}
		},
		table.Name(),
		attacher,
		table.Str("PV", table.Doc(storagev1.VolumeAttachmentSource{}, "persistentVolumeName")),
		table.Str(
			"Node",
			table.Doc(spec, "nodeName"),
		),
		table.Boolean("Attached", table.Doc(storagev1.VolumeAttachmentStatus{}, "attached")),
		table.Age(),
	)
}

func driverCells(o *storagev1.CSIDriver, r table.Meta) []any {
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
		r.Name, attach, table.Deref(o.Spec.PodInfoOnMount), table.Deref(o.Spec.StorageCapacity), audiences,
		table.Deref(o.Spec.RequiresRepublish),
		table.OrNone(strings.Join(modes, ",")), r.Age,
	}
}
