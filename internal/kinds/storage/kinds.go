// Package storage has the kinds of the group storage.k8s.io: classes and drivers of volumes. Nothing acts on them here.
package storage

import (
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass", Plural: "storageclasses",
			Short: []string{"sc"}, Cluster: true, ReturnDeleted: true, Defaults: defaultStorageClass,
			Table: classTable(),
		}, gokind.Rules[*storagev1.StorageClass]{
			Object: validateStorageClass, Update: validateStorageClassUpdate, Warn: warnStorageClass,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttributesClass", Plural: "volumeattributesclasses",
			Short: []string{"vac"}, Cluster: true, ReturnDeleted: true,
			Table: attributesClassTable(),
		}, gokind.Rules[*storagev1.VolumeAttributesClass]{
			Object: validateVolumeAttributesClass, Update: validateVolumeAttributesClassUpdate,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "CSIDriver", Cluster: true, NeedsVersion: true, ReturnDeleted: true,
			Defaults:   defaultDriver,
			Generation: kinds.GenerationOfSpecChanges, Table: driverTable(),
		}, gokind.Rules[*storagev1.CSIDriver]{
			Object: validateCSIDriver, Update: validateCSIDriverUpdate, Warn: warnCSIDriver,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "CSINode", Cluster: true, Status: true, NeedsVersion: true,
			ReturnDeleted: true,
			Complete:      completeCSINode, StatusKeeps: gokind.KeptMetadata(), Table: nodeTable(),
		}, gokind.Rules[*storagev1.CSINode]{Object: validateCSINode, Update: validateCSINodeUpdate}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "CSIStorageCapacity", Plural: "csistoragecapacities",
			NeedsVersion: true,
			// Upstream has a printer with more columns, and does not use it (registry/storage/csistoragecapacity).
			Table: table.Created(),
		}, gokind.Rules[*storagev1.CSIStorageCapacity]{
			Object: validateCSIStorageCapacity, Update: validateCSIStorageCapacityUpdate, Warn: warnCSIStorageCapacity,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment", Cluster: true, Status: true, NeedsVersion: true,
			ReturnDeleted: true, Defaults: defaultAttachment,
			StatusKeeps: gokind.KeptMetadata(), Table: attachmentTable(),
		}, gokind.Rules[*storagev1.VolumeAttachment]{
			Object: validateVolumeAttachment, Update: validateVolumeAttachmentUpdate,
		}),
	}
}
