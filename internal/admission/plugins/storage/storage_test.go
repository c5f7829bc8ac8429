package storage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/admission/plugins/storage"
	"github.com/gapless-io/gapless/internal/kinds"
)

var claims = kinds.GroupResource{Resource: "persistentvolumeclaims"}

const (
	claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: n%s}\nspec: "
	class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nprovisioner: p\n"
)

func pvc(annotations, spec string) string {
	if annotations != "" {
		annotations = ", annotations: " + annotations
	}
	return strings.Replace(claim, "%s", annotations, 1) + spec
}

func TestClaimsGetTheNewestDefaultClass(t *testing.T) {
	classes := storage.Classes()
	p := storage.DefaultStorageClass(classes)
	named := func(text string) string {
		u := pluginstest.Tree(t, text)
		if err := pluginstest.Of(p, claims).About(t, u, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		spec, _ := u.Object["spec"].(map[string]any)
		name, is := spec["storageClassName"].(string)
		if !is {
			return "(none)"
		}
		return name
	}
	if got := named(pvc("", "{}")); got != "(none)" {
		t.Errorf("without classes: %s", got)
	}
	const is = "{storageclass.kubernetes.io/is-default-class: \"true\"}"
	pluginstest.Fill(t, classes,
		class+"metadata: {name: plain, creationTimestamp: \"2026-01-04T00:00:00Z\"}",
		class+"metadata: {name: old, creationTimestamp: \"2026-01-01T00:00:00Z\", annotations: "+is+"}",
		class+"metadata: {name: b, creationTimestamp: \"2026-01-02T00:00:00Z\", annotations: "+is+"}",
		class+
			"metadata: {name: a, creationTimestamp: \"2026-01-02T00:00:00Z\", annotations: "+
			"{storageclass.beta.kubernetes.io/is-default-class: \"true\"}}",
	)
	for text, want := range map[string]string{
		pvc("", "{}"):                                             "a",
		pvc("", "{storageClassName: \"\"}"):                       "",
		pvc("", "{storageClassName: plain}"):                      "plain",
		pvc("{volume.beta.kubernetes.io/storage-class: x}", "{}"): "(none)",
	} {
		if got := named(text); got != want {
			t.Errorf("%s: class %s, want %s", text, got, want)
		}
	}
}

func TestAClaimGrowsIfItsClassAllowsIt(t *testing.T) {
	classes := storage.Classes()
	pluginstest.Fill(t, classes, class+"metadata: {name: grows}\nallowVolumeExpansion: true", class+"metadata: {name: stays}")
	p := storage.PersistentVolumeClaimResize(classes)
	sized := func(class, size, phase string) string {
		return pvc("", "{storageClassName: "+class+", resources: {requests: {storage: "+size+"}}}\nstatus: {phase: "+phase+"}")
	}
	const only = "only dynamically provisioned pvc can be resized"
	for _, c := range []struct{ old, now, err string }{
		{sized("grows", "1Gi", "Bound"), sized("grows", "2Gi", "Bound"), ""},
		{sized("grows", "1Gi", "Pending"), sized("grows", "2Gi", "Bound"), "Only bound persistent volume claims can be expanded"},
		{sized("stays", "1Gi", "Bound"), sized("stays", "2Gi", "Bound"), only},
		{sized("gone", "1Gi", "Bound"), sized("gone", "2Gi", "Bound"), only},
		{sized("stays", "1Gi", "Bound"), sized("grows", "2Gi", "Bound"), only},
		{sized("stays", "1Gi", "Pending"), sized("stays", "1024Mi", "Pending"), ""},
	} {
		err := pluginstest.Of(p, claims).About(t, pluginstest.Tree(t, c.now), pluginstest.Tree(t, c.old))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s\nto %s: %v, want %q", c.old, c.now, err, c.err)
		}
	}
}

func TestNewStorageIsProtected(t *testing.T) {
	p := storage.ObjectInUseProtection()
	for resource, want := range map[kinds.GroupResource]string{
		claims:                          "kubernetes.io/pvc-protection",
		{Resource: "persistentvolumes"}: "kubernetes.io/pv-protection",
		{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}: "kubernetes.io/vac-protection",
	} {
		u := pluginstest.Tree(t, "apiVersion: v1\nkind: Any\nmetadata: {name: a, finalizers: [example.com/mine]}")
		for range 2 { // it is asked again when another plugin has changed the object
			if err := pluginstest.Of(p, resource).About(t, u, nil); err != nil {
				t.Errorf("%v: %v", resource, err)
			}
		}
		if got := u.GetFinalizers(); !slices.Equal(got, []string{"example.com/mine", want}) {
			t.Errorf("%v: %v", resource, got)
		}
	}
}
