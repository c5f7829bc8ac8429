package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	spent   = "spent" // the namespace of the quota
	allowed = 60
)

// restrict makes a namespace with two quotas for ConfigMaps: q, and before it a, which has room for more. It waits until
// a controller has counted, or writes the status itself.
func restrict(t *testing.T, client *kubernetes.Clientset, controlled bool) {
	t.Helper()
	ctx, quotas := t.Context(), client.CoreV1().ResourceQuotas(spent)
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: spent},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	for name, n := range map[string]int64{"a": 10 * allowed, "q": allowed} {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
		q.Spec.Hard = corev1.ResourceList{corev1.ResourceConfigMaps: *resource.NewQuantity(n, resource.DecimalSI)}
		q, err := quotas.Create(ctx, q, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create a quota: %v", err)
		}
		if !controlled {
			q.Status = corev1.ResourceQuotaStatus{
				Hard: q.Spec.Hard, Used: corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse("0")},
			}
			if _, err = quotas.UpdateStatus(ctx, q, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("write the status of the quota: %v", err)
			}
			continue
		}
		for deadline := time.Now().Add(time.Minute); len(q.Status.Used) == 0; {
			if q, err = quotas.Get(ctx, name, metav1.GetOptions{}); err != nil || time.Now().After(deadline) {
				t.Fatalf("wait until the quota is counted: %v", err)
			}
		}
	}
}

// spend lets writers create ConfigMaps, and delete some, by all clients, and checks that there are never more than are
// allowed. It returns how many there are at the end.
func spend(t *testing.T, deletes bool, clients ...*kubernetes.Clientset) int64 {
	t.Helper()
	list, err := clients[0].CoreV1().ConfigMaps(spent).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, client := range clients { // a server that has not seen the quota yet, as it may be, does not apply it
		q, err := client.CoreV1().ResourceQuotas(spent).Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil || len(q.Status.Hard) == 0 {
			t.Fatalf("the quota: %v, %v", q, err)
		}
	}
	var left, refused atomic.Int64
	left.Store(int64(len(list.Items)))
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			at := clients[w%len(clients)].CoreV1().ConfigMaps(spent)
			for i := range 16 {
				name := fmt.Sprintf("c-%d-%d", w, i)
				_, err := at.Create(t.Context(), configMap(name, ""), metav1.CreateOptions{})
				switch {
				case err == nil:
					left.Add(1)
				case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: q, requested: configmaps=1"):
					refused.Add(1)
					<-time.After(20 * time.Millisecond) // others delete, and the controller gives back
					continue
				case apierrors.IsConflict(err): // kube-apiserver gives up after four attempts
					continue
				default:
					t.Errorf("create: %v", err)
					continue
				}
				if deletes && i%2 == 0 {
					if err := at.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
						t.Errorf("delete: %v", err)
					}
					left.Add(-1)
				}
			}
		})
	}
	wg.Wait()
	if refused.Load() == 0 {
		t.Error("nothing was refused")
	}
	if most := atOnce(t, clients[0], list); most > allowed {
		t.Errorf("there were %d at once, of %d", most, allowed)
	}
	return left.Load()
}

// atOnce returns how many ConfigMaps there were at most, since a list.
func atOnce(t *testing.T, client *kubernetes.Clientset, since *corev1.ConfigMapList) (most int) {
	t.Helper()
	w, err := client.CoreV1().ConfigMaps(spent).Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: since.ResourceVersion, TimeoutSeconds: new(int64(3)),
	})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	now := len(since.Items)
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Added:
			now++
		case watch.Deleted:
			now--
		case watch.Error:
			t.Fatalf("watch: %v", e.Object)
		case watch.Modified, watch.Bookmark:
		}
		most = max(most, now)
	}
	return most
}

// uses waits until a quota says how many there are.
func uses(t *testing.T, client *kubernetes.Clientset, name string, want int64) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		q, err := client.CoreV1().ResourceQuotas(spent).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("read the quota: %v", err)
		}
		n := q.Status.Used[corev1.ResourceConfigMaps]
		if last = n.String(); n.Value() == want {
			return
		}
	}
	t.Errorf("the quota %s has %s, want %d", name, last, want)
}

func TestTwoReplicasNeverExceedAQuota(t *testing.T) {
	url := member(t)
	a, b := start(t, url, t.TempDir(), nil), start(t, url, t.TempDir(), nil)
	restrict(t, a.client, true)
	left := spend(t, true, a.client, b.client)
	for _, name := range []string{"a", "q"} {
		uses(t, b.client, name, left) // what is deleted is given back, and what one quota has charged that another refuses
	}
	t.Logf("%d of %d are left", left, allowed)
}

func TestKubeAPIServerAndAReplicaNeverExceedAQuota(t *testing.T) {
	both := startBothWithout(t, `{"identity":{}}`, slices.DeleteFunc(slices.Clone(left), func(name string) bool {
		return name == "ResourceQuota"
	}))
	admin := both.cluster.Admin
	cfg := both.gapless.RESTConfig()
	cfg.Host, cfg.CAData, cfg.CertData, cfg.KeyData = both.cluster.URL, admin.CA, admin.Cert, admin.Key
	upstream := clientOf(t, cfg)
	restrict(t, upstream, false)
	there := spend(t, false, upstream, both.gapless.client)
	q, err := upstream.CoreV1().ResourceQuotas(spent).Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read the quota: %v", err)
	}
	n := q.Status.Used[corev1.ResourceConfigMaps]
	if n.Value() < there || n.Value() > allowed { // what conflicts took is not given back by kube-apiserver
		t.Errorf("the quota has %s, and there are %d", n.String(), there)
	}
	t.Logf("%d of %d are there, the quota has %s", there, allowed, n.String())
}
