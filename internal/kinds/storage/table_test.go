package storage_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"

	"github.com/gapless-io/gapless/internal/kinds/storage"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestStorageClassRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(storage.Kinds(), "storageclasses.storage.k8s.io"),
		"Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age",
		[]tabletest.Case{
			{"bare", `{provisioner: p}`, "x | p | Delete | Immediate | false | 90m"},
			{
				"full",
				`{provisioner: p, reclaimPolicy: Retain, volumeBindingMode: WaitForFirstConsumer, allowVolumeExpansion: true}`,
				"x | p | Retain | WaitForFirstConsumer | true | 90m",
			},
			{
				"default, which only a list marks",
				`{provisioner: p, metadata: {annotations: {storageclass.kubernetes.io/is-default-class: "true"}}}`,
				"x | p | Delete | Immediate | false | 90m",
			},
		},
	)
}

// class returns a storage class which says that it is the default, or not.
func class(t *testing.T, name, created, annotation, value string) *wire.Object {
	t.Helper()
	return tabletest.Parse(
		t,
		`{metadata: {name: `+name+`, creationTimestamp: "`+created+`", annotations: {`+annotation+`: "`+value+`"}}}`,
	)
}

func TestListOfStorageClassesMarksTheNewestDefault(t *testing.T) {
	const annotation, old = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	a := class(t, "a", "2026-05-01T10:00:00Z", annotation, "true")
	b := class(t, "b", "2026-05-01T11:00:00Z", old, "true")
	c := class(t, "c", "2026-05-01T11:00:00Z", annotation, "true")
	d := class(t, "d", "2026-05-01T12:00:00Z", annotation, "false")
	broken := tabletest.Parse(t, `metadata: {annotations: 17}`)
	for name, list := range map[string]struct{ items, want []any }{
		"none":                         {[]any{d}, []any{"d"}},
		"one":                          {[]any{a, d}, []any{"a (default)", "d"}},
		"the newest":                   {[]any{a, c, d}, []any{"a", "c (default)", "d"}},
		"the first by name of a time":  {[]any{c, b, a}, []any{"c", "b (default)", "a"}},
		"an object that is no class":   {[]any{broken, a}, []any{"x", "a (default)"}},
		"the list ends with a failure": {[]any{a, errors.New("broken disk"), c}, []any{"a (default)", "c"}},
	} {
		row := tabletest.Of(storage.Kinds(), "storageclasses.storage.k8s.io").ListRow(func(yield func(*wire.Object, error) bool) {
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

func TestCSIRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(storage.Kinds(), "csidrivers.storage.k8s.io"),
		"Name | AttachRequired | PodInfoOnMount | StorageCapacity | TokenRequests | RequiresRepublish | Modes | Age",
		[]tabletest.Case{
			{
				"full",
				`spec: {attachRequired: false, podInfoOnMount: true, storageCapacity: true, requiresRepublish: true, ` +
					`tokenRequests: [{audience: a}, {audience: b}], volumeLifecycleModes: [Persistent, Ephemeral]}`,
				"x | false | true | true | a,b | true | Persistent,Ephemeral | 90m",
			},
			{"bare", ``, "x | true | false | false | <unset> | false | <none> | 90m"},
		},
	)
	tabletest.Check(
		t,
		tabletest.Of(storage.Kinds(), "csinodes.storage.k8s.io"),
		"Name | Drivers | Age",
		[]tabletest.Case{{"two drivers", `spec: {drivers: [{name: a}, {name: b}]}`, "x | 2 | 90m"}},
	)
	tabletest.Check(
		t,
		tabletest.Of(storage.Kinds(), "volumeattachments.storage.k8s.io"),
		"Name | Attacher | PV | Node | Attached | Age",
		[]tabletest.Case{
			{
				"attached",
				`{spec: {attacher: a, nodeName: node-1, source: {persistentVolumeName: pv}}, status: {attached: true}}`,
				"x | a | pv | node-1 | true | 90m",
			},
			{"inline", `{spec: {attacher: a, nodeName: node-1, source: {}}}`, "x | a |  | node-1 | false | 90m"},
		},
	)
}
