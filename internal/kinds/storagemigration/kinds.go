// Package storagemigration has the kind of the group storagemigration.k8s.io. Nothing acts on it here.
package storagemigration

import (
	migrationv1 "k8s.io/api/storagemigration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "storagemigration.k8s.io", Version: "v1", Kind: "StorageVersionMigration", Cluster: true,
			Status: true, NeedsVersion: true,
			StatusKeeps: gokind.KeptMetadata(), Table: migrationTable(),
		}, gokind.Rules[*migrationv1.StorageVersionMigration]{
			Object: validateStorageVersionMigration, Update: validateStorageVersionMigrationUpdate,
		}),
	}
}
