package replicas_test

import (
	"bytes"
	"encoding/pem"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

const (
	rootCA = "kube-root-ca.crt"
	// long is a Lease that the test need not renew: it says so itself.
	long  = time.Hour
	short = time.Second
)

// otherCA is that of a cluster.
func otherCA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("of the cluster")}))
}

// managedCluster is an etcd in which a kube-controller-manager has worked: it has a Lease, and its CA is in the namespace
// default. There are a namespace and a claim under deletion, a definition that was deleted later, and an object whose owner
// is gone.
func managedCluster(t *testing.T, lasts time.Duration) (url string) {
	t.Helper()
	url = member(t)
	r := start(t, url, t.TempDir(), func(cfg *gapless.Config) {
		cfg.Bootstrap, cfg.Controllers = gapless.BootstrapNone, []string{"-" + gapless.GarbageCollectorController, "-namespace"}
	})
	now := metav1.NowMicro()
	if _, err := r.client.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("m1"), LeaseDurationSeconds: new(int32(lasts / time.Second)), AcquireTime: &now, RenewTime: &now,
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create the Lease: %v", err)
	}
	ca := configMap(rootCA, "")
	ca.Data = map[string]string{"ca.crt": otherCA()}
	orphan := configMap("orphan", "")
	orphan.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
	for _, o := range []*corev1.ConfigMap{ca, orphan} {
		if _, err := r.client.CoreV1().ConfigMaps("default").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create a ConfigMap: %v", err)
		}
	}
	if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "old"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	if err := r.client.CoreV1().Namespaces().Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete the namespace: %v", err)
	}
	claims := r.client.CoreV1().PersistentVolumeClaims("default")
	if _, err := claims.Create(t.Context(), claim("old"), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a claim: %v", err)
	}
	if err := claims.Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete the claim: %v", err)
	}
	r.define(t)
	r.stop(t)
	return url
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// define creates a definition and deletes it: it stays until the leader has removed what is in it.
func (r *replica) define(t *testing.T) {
	t.Helper()
	if err := r.client.RESTClient().Post().AbsPath(definitionsPath).SetHeader("Content-Type", "application/json").
		Body([]byte(widgetDefinition)).Do(t.Context()).Error(); err != nil {
		t.Fatalf("create a definition: %v", err)
	}
}

func (r *replica) deleteDefinition(t *testing.T) {
	t.Helper()
	if err := r.client.RESTClient().Delete().AbsPath(definitionsPath, "widgets.example.org").Do(t.Context()).Error(); err != nil {
		t.Fatalf("delete the definition: %v", err)
	}
}

// undone returns what a kube-controller-manager has not done yet.
func (r *replica) undone(t *testing.T) (left []string) {
	t.Helper()
	if _, err := r.client.CoreV1().Namespaces().Get(t.Context(), "old", metav1.GetOptions{}); err == nil {
		left = append(left, "the namespace under deletion")
	} else if !apierrors.IsNotFound(err) {
		t.Fatalf("read the namespace: %v", err)
	}
	if _, err := r.client.CoreV1().ConfigMaps("default").Get(t.Context(), "orphan", metav1.GetOptions{}); err == nil {
		left = append(left, "the object without an owner")
	} else if !apierrors.IsNotFound(err) {
		t.Fatalf("read the object without an owner: %v", err)
	}
	if _, err := r.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "old", metav1.GetOptions{}); err == nil {
		left = append(left, "the claim under deletion")
	} else if !apierrors.IsNotFound(err) {
		t.Fatalf("read the claim: %v", err)
	}
	if _, err := r.client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default",
		metav1.GetOptions{}); apierrors.IsNotFound(err) {
		left = append(left, "the ServiceAccount")
	} else if err != nil {
		t.Fatalf("read the ServiceAccount: %v", err)
	}
	return left
}

func (r *replica) rootCA(t *testing.T, namespace string) string {
	t.Helper()
	o, err := r.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), rootCA, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatalf("read the root CA: %v", err)
	}
	return o.Data["ca.crt"]
}

// auto is what gapless serve does by default.
func auto(cfg *gapless.Config) { cfg.Bootstrap = gapless.BootstrapAuto }

// TestWhatAManagerDoesIsLeftToIt: but for definitions, which are kube-apiserver's. When it gives up its Lease the leader
// does it.
func TestWhatAManagerDoesIsLeftToIt(t *testing.T) {
	r := start(t, managedCluster(t, long), t.TempDir(), auto)
	harness.Eventually(t, "the replica leads, and has seen the manager", func() bool {
		s := r.status(t)
		return s.Leader == s.ID && s.ControllerManager == "m1"
	})
	r.deleteDefinition(t)
	harness.Eventually(t, "the definition is gone, so that the namespace had its time too", func() bool {
		err := r.client.RESTClient().Get().AbsPath(definitionsPath, "widgets.example.org").Do(t.Context()).Error()
		return apierrors.IsNotFound(err)
	})
	if left := r.undone(t); len(left) != 4 {
		t.Errorf("beside a kube-controller-manager only this is left to it: %q", left)
	}
	if got := r.rootCA(t, "default"); got != otherCA() {
		t.Errorf("the CA of the cluster was replaced: %q", got)
	}
	metrics, err := r.client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !bytes.Contains(metrics, []byte("gapless_kube_controller_manager_active 1\n")) {
		t.Errorf("the metrics do not show it (%v)", err)
	}

	leases := r.client.CoordinationV1().Leases("kube-system")
	lease, err := leases.Get(t.Context(), "kube-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read the Lease: %v", err)
	}
	lease.Spec.HolderIdentity = new("")
	if lease, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("release the Lease: %v", err)
	}
	harness.Eventually(t, "the leader does what the manager has left", func() bool { return len(r.undone(t)) == 0 })
	if got := r.rootCA(t, "default"); got != otherCA() {
		t.Errorf("the CA of the cluster was replaced: %q", got)
	}
	harness.Eventually(t, "where there is none the replica's own CA is made", func() bool {
		return r.rootCA(t, "kube-system") == string(r.RESTConfig().CAData)
	})

	lease.Spec.HolderIdentity = new("m2")
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("take the Lease: %v", err)
	}
	harness.Eventually(t, "another manager is seen", func() bool { return r.status(t).ControllerManager == "m2" })
}

// TestTheLeaseThatAManagerLeftEnds: nobody releases it.
func TestTheLeaseThatAManagerLeftEnds(t *testing.T) {
	r := start(t, managedCluster(t, short), t.TempDir(), auto)
	harness.Eventually(t, "the leader does what the manager has left", func() bool { return len(r.undone(t)) == 0 })
	if s := r.status(t); s.ControllerManager != "" {
		t.Errorf("the replica leaves its work to %s", s.ControllerManager)
	}
	if got := r.rootCA(t, "default"); got != otherCA() {
		t.Errorf("the CA of the cluster was replaced: %q", got)
	}
}

// TestWhatIsNamedIsDoneBesideAManager: the controllers, and BootstrapCluster.
func TestWhatIsNamedIsDoneBesideAManager(t *testing.T) {
	r := start(t, managedCluster(t, long), t.TempDir(), func(cfg *gapless.Config) {
		cfg.Bootstrap = gapless.BootstrapCluster
		cfg.Controllers = []string{gapless.GarbageCollectorController, "namespace", "pvc-protection"}
	})
	harness.Eventually(t, "the leader does everything", func() bool {
		return len(r.undone(t)) == 0 && r.rootCA(t, "default") == string(r.RESTConfig().CAData)
	})
	if s := r.status(t); s.ControllerManager != "" {
		t.Errorf("the replica leaves its work to %s", s.ControllerManager)
	}
}
