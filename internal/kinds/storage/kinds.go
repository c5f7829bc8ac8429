// Package storage has the kinds of the group storage.k8s.io: classes and drivers of volumes. Nothing acts on them here.
package storage

import (
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/cluster"
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
			Object: validation.StorageClass, Update: validation.StorageClassUpdate, Warn: warnStorageClass,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttributesClass", Plural: "volumeattributesclasses",
			Short: []string{"vac"}, Cluster: true, ReturnDeleted: true,
			Table: attributesClassTable(),
		}, gokind.Rules[*storagev1.VolumeAttributesClass]{
			Object: cluster.VolumeAttributesClass, Update: cluster.VolumeAttributesClassUpdate,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "CSIDriver", Cluster: true, NeedsVersion: true, ReturnDeleted: true,
			Defaults:   defaultDriver,
			Generation: kinds.GenerationOfSpecChanges, Table: driverTable(),
		}, gokind.Rules[*storagev1.CSIDriver]{
			Object: validation.CSIDriver, Update: validation.CSIDriverUpdate, Warn: warnCSIDriver,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "CSINode", Cluster: true, Status: true, NeedsVersion: true,
			ReturnDeleted: true,
			Complete:      completeCSINode, StatusKeeps: gokind.KeptMetadata(), Table: nodeTable(),
		}, gokind.Rules[*storagev1.CSINode]{Object: validation.CSINode, Update: validation.CSINodeUpdate}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "CSIStorageCapacity", Plural: "csistoragecapacities",
			NeedsVersion: true,
			// Upstream has a printer with more columns, and does not use it (registry/storage/csistoragecapacity).
			Table: table.Created(),
		}, gokind.Rules[*storagev1.CSIStorageCapacity]{
			Object: cluster.CSIStorageCapacity, Update: cluster.CSIStorageCapacityUpdate, Warn: warnCSIStorageCapacity,
		}),
		gokind.Of(gokind.Row{
			Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment", Cluster: true, Status: true, NeedsVersion: true,
			ReturnDeleted: true, Defaults: defaultAttachment,
			StatusKeeps: gokind.KeptMetadata(), Table: attachmentTable(),
		}, gokind.Rules[*storagev1.VolumeAttachment]{
			Object: validation.VolumeAttachment, Update: validation.VolumeAttachmentUpdate,
		}),
	}
}
