package printers_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestPersistentVolumeRows(t *testing.T) {
	const columns = "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass | Reason | Age | VolumeMode*"
	checkRows(t, "persistentvolumes", columns, []rowCase{
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
		{"failed", `{spec: {}, status: {phase: Failed, reason: RecyclerFailed}}`, "x | 0 |  |  | Failed |  |  | <unset> | RecyclerFailed | 90m | <unset>"},
		{"terminating", `{metadata: {deletionTimestamp: "2026-05-01T13:00:00Z"}, status: {phase: Released}}`, "x | 0 |  |  | Terminating |  |  | <unset> |  | 90m | <unset>"},
		{
			"class of the annotation", `{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}, spec: {storageClassName: fast}}`,
			"x | 0 |  |  |  |  | slow | <unset> |  | 90m | <unset>",
		},
	})
}

func TestPersistentVolumeClaimRows(t *testing.T) {
	const columns = "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode*"
	checkRows(t, "persistentvolumeclaims", columns, []rowCase{
		{
			"bound", `
spec: {volumeName: pv, storageClassName: fast, volumeAttributesClassName: gold, volumeMode: Filesystem, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
status: {phase: Bound, accessModes: [ReadWriteOncePod, ReadWriteOnce], capacity: {storage: 2Gi}}`,
			"x | Bound | pv | 2Gi | RWO,RWOP | fast | gold | 90m | Filesystem",
		},
		{"pending", `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`, "x | Pending |  |  |  |  | <unset> | 90m | <unset>"},
		{"terminating", `{metadata: {deletionTimestamp: "2026-05-01T13:00:00Z"}, spec: {volumeName: pv}, status: {phase: Bound}}`, "x | Terminating | pv | 0 |  |  | <unset> | 90m | <unset>"},
		{
			"class of the annotation", `{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}, spec: {storageClassName: fast}}`,
			"x |  |  |  |  | slow | <unset> | 90m | <unset>",
		},
	})
}

func TestStorageClassRows(t *testing.T) {
	checkRows(t, "storageclasses.storage.k8s.io", "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age", []rowCase{
		{"bare", `{provisioner: p}`, "x | p | Delete | Immediate | false | 90m"},
		{
			"full", `{provisioner: p, reclaimPolicy: Retain, volumeBindingMode: WaitForFirstConsumer, allowVolumeExpansion: true}`,
			"x | p | Retain | WaitForFirstConsumer | true | 90m",
		},
		{
			"default, which only a list marks", `{provisioner: p, metadata: {annotations: {storageclass.kubernetes.io/is-default-class: "true"}}}`,
			"x | p | Delete | Immediate | false | 90m",
		},
	})
}

// class returns a storage class which says that it is the default, or not.
func class(t *testing.T, name, created, annotation, value string) *wire.Object {
	t.Helper()
	return parse(t, `{metadata: {name: `+name+`, creationTimestamp: "`+created+`", annotations: {`+annotation+`: "`+value+`"}}}`)
}

func TestListOfStorageClassesMarksTheNewestDefault(t *testing.T) {
	const annotation, old = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	a := class(t, "a", "2026-05-01T10:00:00Z", annotation, "true")
	b := class(t, "b", "2026-05-01T11:00:00Z", old, "true")
	c := class(t, "c", "2026-05-01T11:00:00Z", annotation, "true")
	d := class(t, "d", "2026-05-01T12:00:00Z", annotation, "false")
	broken := parse(t, `metadata: {annotations: 17}`)
	for name, list := range map[string]struct{ items, want []any }{
		"none":                         {[]any{d}, []any{"d"}},
		"one":                          {[]any{a, d}, []any{"a (default)", "d"}},
		"the newest":                   {[]any{a, c, d}, []any{"a", "c (default)", "d"}},
		"the first by name of a time":  {[]any{c, b, a}, []any{"c", "b (default)", "a"}},
		"an object that is no class":   {[]any{broken, a}, []any{"x", "a (default)"}},
		"the list ends with a failure": {[]any{a, errors.New("broken disk"), c}, []any{"a (default)", "c"}},
	} {
		row := printer("storageclasses.storage.k8s.io").ListRow(func(yield func(*wire.Object, error) bool) {
			for _, item := range list.items {
				o, _ := item.(*wire.Object)
				err, _ := item.(error)
				if !yield(o, err) {
					return
				}
			}
		})
		var got []any
		for _, item := range list.items {
			if o, is := item.(*wire.Object); is {
				got = append(got, row(o)[0])
			}
		}
		if diff := cmp.Diff(list.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestOnlyStorageClassesDependOnTheirList(t *testing.T) {
	for _, resource := range []string{"pods", "ingressclasses.networking.k8s.io", "foos.example.com"} {
		if printer(resource).ListRow != nil {
			t.Errorf("%s has a ListRow", resource)
		}
	}
}

func TestCSIRows(t *testing.T) {
	checkRows(t, "csidrivers.storage.k8s.io", "Name | AttachRequired | PodInfoOnMount | StorageCapacity | TokenRequests | RequiresRepublish | Modes | Age", []rowCase{
		{
			"full", `spec: {attachRequired: false, podInfoOnMount: true, storageCapacity: true, requiresRepublish: true, tokenRequests: [{audience: a}, {audience: b}], volumeLifecycleModes: [Persistent, Ephemeral]}`,
			"x | false | true | true | a,b | true | Persistent,Ephemeral | 90m",
		},
		{"bare", ``, "x | true | false | false | <unset> | false | <none> | 90m"},
	})
	checkRows(t, "csinodes.storage.k8s.io", "Name | Drivers | Age", []rowCase{{"two drivers", `spec: {drivers: [{name: a}, {name: b}]}`, "x | 2 | 90m"}})
	checkRows(t, "volumeattachments.storage.k8s.io", "Name | Attacher | PV | Node | Attached | Age", []rowCase{
		{"attached", `{spec: {attacher: a, nodeName: node-1, source: {persistentVolumeName: pv}}, status: {attached: true}}`, "x | a | pv | node-1 | true | 90m"},
		{"inline", `{spec: {attacher: a, nodeName: node-1, source: {}}}`, "x | a |  | node-1 | false | 90m"},
	})
}
