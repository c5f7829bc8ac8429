package replicas_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// userOf is a pod with a node that uses a claim.
func userOf(claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "user-of-" + claim},
		Spec: corev1.PodSpec{
			NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// TestTheLeaderReleasesWhatKubeAPIServerProtects: kube-apiserver gives claims their finalizer and has no controllers; the
// pods that use them are written there, and the claims deleted, while the leader knows of neither by itself.
func TestTheLeaderReleasesWhatKubeAPIServerProtects(t *testing.T) {
	cluster := harness.StartCluster(t, "--disable-admission-plugins=ServiceAccount")
	admin := cluster.Admin
	upstream, err := kubernetes.NewForConfig(&rest.Config{
		Host: cluster.URL, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CA, CertData: admin.Cert, KeyData: admin.Key},
	})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	claims, pods := upstream.CoreV1().PersistentVolumeClaims("default"), upstream.CoreV1().Pods("default")
	harness.Eventually(t, "there is the namespace default", func() bool {
		_, err := upstream.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	create := func(name string, used bool) {
		t.Helper()
		made, err := claims.Create(t.Context(), claim(name), metav1.CreateOptions{})
		if err != nil || len(made.Finalizers) != 1 {
			t.Fatalf("create a claim: %v, %v", made, err)
		}
		if used {
			if _, err := pods.Create(t.Context(), userOf(name), metav1.CreateOptions{}); err != nil {
				t.Fatalf("create a pod: %v", err)
			}
		}
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete the claim: %v", err)
		}
	}
	gone := func(name string) bool {
		_, err := claims.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
	create("used", true)
	create("free", false)
	replica := start(t, cluster.EtcdURL(), t.TempDir(), func(cfg *gapless.Config) {
		cfg.DisableAdmissionPlugins = []string{"ServiceAccount"}
	})
	harness.Eventually(t, "the claim that was free before the replica came goes", func() bool { return gone("free") })
	create("later", true)
	create("last", false)
	harness.Eventually(t, "the claim that no pod uses goes", func() bool { return gone("last") })
	for _, name := range []string{"used", "later"} {
		if gone(name) {
			t.Errorf("the claim %s is gone, but a pod with a node uses it", name)
		}
	}
	if err := pods.Delete(t.Context(), "user-of-later", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatalf("delete a pod: %v", err)
	}
	harness.Eventually(t, "the claim goes when its pod is gone", func() bool { return gone("later") })
	if gone("used") {
		t.Error("the other claim is gone, but a pod with a node uses it")
	}
	if err := replica.client.CoreV1().Pods("default").Delete(t.Context(), "user-of-used",
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatalf("delete a pod at the replica: %v", err)
	}
	harness.Eventually(t, "the claim goes when its pod is gone", func() bool { return gone("used") })
}
