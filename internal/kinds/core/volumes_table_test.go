package core_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/core"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestPersistentVolumeRows(t *testing.T) {
	const columns = "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass | " +
		"Reason | Age | VolumeMode*"
	tabletest.Check(t, tabletest.Of(core.Kinds(), "persistentvolumes"), columns, []tabletest.Case{
		{
			"bound", `
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteMany, ReadWriteOnce, ReadOnlyMany, ReadWriteOncePod, ReadWriteOnce, Other]
  persistentVolumeReclaimPolicy: Delete
  claimRef: {namespace: default, name: data}
  storageClassName: fast
  volumeAttributesClassName: gold
  volumeMode: Block
status: {phase: Bound}`,
			"x | 10Gi | RWO,ROX,RWX,RWOP | Delete | Bound | default/data | fast | gold |  | 90m | Block",
		},
		{
			"failed",
			`{spec: {}, status: {phase: Failed, reason: RecyclerFailed}}`,
			"x | 0 |  |  | Failed |  |  | <unset> | RecyclerFailed | 90m | <unset>",
		},
		{
			"terminating",
			`{metadata: {deletionTimestamp: "2026-05-01T13:00:00Z"}, status: {phase: Released}}`,
			"x | 0 |  |  | Terminating |  |  | <unset> |  | 90m | <unset>",
		},
		{
			"class of the annotation",
			`{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}, spec: {storageClassName: fast}}`,
			"x | 0 |  |  |  |  | slow | <unset> |  | 90m | <unset>",
		},
	})
}

func TestPersistentVolumeClaimRows(t *testing.T) {
	const columns = "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode*"
	tabletest.Check(t, tabletest.Of(core.Kinds(), "persistentvolumeclaims"), columns, []tabletest.Case{
		{
			"bound", `
spec: {volumeName: pv, storageClassName: fast, volumeAttributesClassName: gold, volumeMode: Filesystem,` +
				` accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
status: {phase: Bound, accessModes: [ReadWriteOncePod, ReadWriteOnce], capacity: {storage: 2Gi}}`,
			"x | Bound | pv | 2Gi | RWO,RWOP | fast | gold | 90m | Filesystem",
		},
		{
			"pending",
			`{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`,
			"x | Pending |  |  |  |  | <unset> | 90m | <unset>",
		},
		{
			"terminating",
			`{metadata: {deletionTimestamp: "2026-05-01T13:00:00Z"}, spec: {volumeName: pv}, status: {phase: Bound}}`,
			"x | Terminating | pv | 0 |  |  | <unset> | 90m | <unset>",
		},
		{
			"class of the annotation",
			`{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}, spec: {storageClassName: fast}}`,
			"x |  |  |  |  | slow | <unset> | 90m | <unset>",
		},
	})
}
