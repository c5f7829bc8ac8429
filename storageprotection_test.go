package gapless_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

const (
	claimsURL   = "/api/v1/namespaces/default/persistentvolumeclaims"
	volumesURL  = "/api/v1/persistentvolumes"
	classesURL  = "/apis/storage.k8s.io/v1/volumeattributesclasses"
	claimNamed  = `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}`
	podOfAClaim = `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}],` +
		`"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}}`
)

// protected are what the controllers protect: where it is made, an object, and its finalizer.
func protected() [][3]string {
	return [][3]string{
		{claimsURL, claimNamed, "kubernetes.io/pvc-protection"},
		{
			volumesURL, `{"metadata":{"name":"c"},"spec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOnce"],` +
				`"hostPath":{"path":"/x"}}}`, "kubernetes.io/pv-protection",
		},
		{
			classesURL, `{"metadata":{"name":"c"},"driverName":"d.example.org","parameters":{"a":"b"}}`,
			"kubernetes.io/vac-protection",
		},
	}
}

// becomesGone waits until an object is gone.
func (s launched) becomesGone(t *testing.T, client *http.Client, path string) {
	t.Helper()
	until(t, func() bool {
		code, _ := s.exchange(t, client, "GET "+path, "")
		return code == http.StatusNotFound
	})
}

// TestStorageIsProtectedWhereItIsReleased: the plugin is on by default where all three controllers run that end what it
// begins, and where it is named.
func TestStorageIsProtectedWhereItIsReleased(t *testing.T) {
	named := []string{"StorageObjectInUseProtection"}
	all := []string{"pvc-protection", "pv-protection", gapless.VolumeAttributesClassProtectionController}
	for name, c := range map[string]struct {
		cfg       gapless.Config
		protected bool // by the plugin
		released  bool // by the controllers
	}{
		"default":           {gapless.Config{}, true, true},
		"no bootstrap":      {gapless.Config{Bootstrap: gapless.BootstrapNone}, true, true},
		"all by their name": {gapless.Config{Controllers: all}, true, true},
		"no controllers":    {gapless.Config{Controllers: []string{}}, false, false},
		"only others":       {gapless.Config{Controllers: []string{gapless.NamespaceController}}, false, false},
		"named":             {gapless.Config{Controllers: []string{}, EnableAdmissionPlugins: named}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := launch(t, c.cfg)
			client := s.web(t)
			for _, p := range protected() {
				code, body := s.exchange(t, client, "POST "+p[0], p[1])
				if has := strings.Contains(body, p[2]); code != 201 || has != c.protected {
					t.Errorf("%s: %d %s; want the finalizer: %v", p[0], code, body, c.protected)
				}
				code, body = s.exchange(t, client, "DELETE "+p[0]+"/c", "")
				if code != 200 {
					t.Fatalf("delete %s: %d %s", p[0], code, body)
				}
				if c.released || !c.protected {
					s.becomesGone(t, client, p[0]+"/c")
				} else if code, body := s.exchange(t, client, "GET "+p[0]+"/c", ""); code != 200 {
					t.Errorf("without a controller %s/c is %d %s, want that it stays", p[0], code, body)
				}
			}
		})
	}
}

// TestStorageIsNotProtectedWhereOneControllerIsOff, whichever that is.
func TestStorageIsNotProtectedWhereOneControllerIsOff(t *testing.T) {
	for n, off := range []string{"-pvc-protection", "-pv-protection", "-" + gapless.VolumeAttributesClassProtectionController} {
		s := launch(t, gapless.Config{Controllers: []string{"*", off}})
		client := s.web(t)
		p := protected()[n]
		if code, body := s.exchange(t, client, "POST "+p[0], p[1]); code != 201 || strings.Contains(body, p[2]) {
			t.Errorf("with %s: %d %s", off, code, body)
		}
	}
}

// TestANamespaceWaitsForThePodsOfItsClaims: the claim goes when the pod has ended, and then the namespace. A pod whose node
// does not exist ends at once.
func TestANamespaceWaitsForThePodsOfItsClaims(t *testing.T) {
	s := launch(t, gapless.Config{})
	client := s.web(t)
	begin := func(name string) (space string) {
		t.Helper()
		space = "/api/v1/namespaces/" + name
		s.must(t, client, "POST /api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`, 201)
		s.must(t, client, "POST "+space+"/persistentvolumeclaims", claimNamed, 201)
		s.must(t, client, "POST "+space+"/pods", podOfAClaim, 201)
		s.must(t, client, "DELETE "+space+"/persistentvolumeclaims/c", "", 200)
		s.must(t, client, "DELETE "+space, "", 200)
		return space
	}
	s.becomesGone(t, client, begin("no-node"))

	s.must(t, client, "POST /api/v1/nodes", `{"metadata":{"name":"n"}}`, 201)
	space := begin("node")
	until(t, func() bool { // nothing ends the pod
		_, body := s.exchange(t, client, "GET "+space+"/pods/p", "")
		return strings.Contains(body, `"deletionTimestamp"`)
	})
	if _, body := s.exchange(t, client, "GET "+space+"/persistentvolumeclaims/c", ""); !strings.Contains(body, "pvc-protection") {
		t.Errorf("the claim is %s, want that it waits for the pod", body)
	}
	s.must(t, client, "DELETE "+space+"/pods/p?gracePeriodSeconds=0", "", 200)
	s.becomesGone(t, client, space+"/persistentvolumeclaims/c")
	s.becomesGone(t, client, space)
}

// TestClaimsOfBeforeGetTheirFinalizer: they were stored while the plugin was off; and what was deleted meanwhile goes.
func TestClaimsOfBeforeGetTheirFinalizer(t *testing.T) {
	dir := t.TempDir()
	s := launch(t, gapless.Config{
		DataDir: dir, Controllers: []string{}, DisableAdmissionPlugins: []string{"StorageObjectInUseProtection"},
	})
	s.must(t, s.web(t), "POST "+claimsURL, claimNamed, 201)
	s.stop()

	s = launch(t, gapless.Config{DataDir: dir})
	client := s.web(t)
	until(t, func() bool {
		_, body := s.exchange(t, client, "GET "+claimsURL+"/c", "")
		return strings.Contains(body, "kubernetes.io/pvc-protection")
	})
	s.must(t, client, "POST /api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"a"}}`, 201)
	pod := strings.Replace(podOfAClaim, `"nodeName"`, `"serviceAccountName":"a","nodeName"`, 1)
	s.must(t, client, "POST /api/v1/namespaces/default/pods", pod, 201)
	s.must(t, client, "DELETE "+claimsURL+"/c", "", 200)
	s.stop()

	s = launch(t, gapless.Config{DataDir: dir, Controllers: []string{}}) // a server in between that releases nothing
	client = s.web(t)
	s.must(t, client, "DELETE /api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", "", 200)
	s.must(t, client, "GET "+claimsURL+"/c", "", 200)
	s.stop()

	s = launch(t, gapless.Config{DataDir: dir})
	s.becomesGone(t, s.web(t), claimsURL+"/c")
}
