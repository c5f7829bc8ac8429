package replicas_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

var ipAddresses = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ipaddresses"}

const nodePortService = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"NAME"},"spec":{"type":"NodePort",
	"ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`

// allocated are the addresses and node ports of a Service.
func allocated(u *unstructured.Unstructured) []string {
	spec, _ := u.Object["spec"].(map[string]any)
	ips, _ := spec["clusterIPs"].([]any)
	all := []string{}
	for _, ip := range ips {
		all = append(all, fmt.Sprint(ip))
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		all = append(all, fmt.Sprint(p.(map[string]any)["nodePort"]))
	}
	return all
}

// createAll creates Services at servers in turn, all at once, and requires that no two share anything.
func createAll(t *testing.T, prefix string, n int, at ...dynamic.Interface) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]string{}
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprintf("%s%d", prefix, i)
			made, err := at[i%len(at)].Resource(services).Namespace("default").Create(t.Context(),
				object(t, strings.ReplaceAll(nodePortService, "NAME", name)), metav1.CreateOptions{})
			if err != nil {
				t.Errorf("create %s: %v", name, err)
				return
			}
			has := allocated(made)
			if len(has) != 3 {
				t.Errorf("%s has %v", name, has)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, one := range has {
				if other := seen[one]; other != "" {
					t.Errorf("%s and %s have %s", name, other, one)
				}
				seen[one] = name
			}
		})
	}
	wg.Wait()
}

// deleteAll deletes all Services but kubernetes, at servers in turn, and requires that nothing stays taken.
func deleteAll(t *testing.T, url string, at ...dynamic.Interface) {
	t.Helper()
	list, err := at[0].Resource(services).Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list the Services: %v", err)
	}
	for i, item := range list.Items {
		if item.GetName() == "kubernetes" {
			continue
		}
		if err := at[i%len(at)].Resource(services).Namespace("default").Delete(t.Context(), item.GetName(),
			metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete %s: %v", item.GetName(), err)
		}
	}
	harness.Eventually(t, "all is given back", func() bool {
		left, err := at[0].Resource(ipAddresses).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(left.Items) <= 1 && !registered(t.Context(), t, url)
	})
}

// registered reports whether a node port is taken in etcd: the data of the RangeAllocation is the last field.
func registered(ctx context.Context, t *testing.T, url string) bool {
	t.Helper()
	resp, err := etcdAt(t, url).Get(ctx, "/registry/ranges/servicenodeports")
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("read the registration: %v, %v", resp, err)
	}
	return !strings.Contains(string(resp.Kvs[0].Value), "30000-32767\x1a\x00")
}

// TestReplicasShareNoAddresses: neither while they create Services at once, nor when one ends meanwhile.
func TestReplicasShareNoAddresses(t *testing.T) {
	url := member(t)
	wide := func(cfg *gapless.Config) { cfg.ServiceClusterIPRanges = []string{"10.0.0.0/24"} }
	a, b := start(t, url, t.TempDir(), wide), start(t, url, t.TempDir(), wide)
	atA, atB := dynamicOf(t, a.RESTConfig()), dynamicOf(t, b.RESTConfig())
	createAll(t, "s", 64, atA, atB)
	deleteAll(t, url, atA, atB)
}

// TestBesideKubeAPIServerNoAddressesAreShared, and what one has allocated the other one changes and gives back.
func TestBesideKubeAPIServerNoAddressesAreShared(t *testing.T) {
	s := startSides(t)
	createAll(t, "s", 64, s.kubectl, s.replica)
	for i, of := range []struct{ made, changed dynamic.Interface }{{s.kubectl, s.replica}, {s.replica, s.kubectl}} {
		name := fmt.Sprintf("static%d", i)
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"%s"},"spec":{"type":"NodePort",
			"clusterIP":"10.0.0.%d","ports":[{"port":80,"nodePort":3000%d}]}}`, name, 5+i, 5+i)
		if _, err := of.made.Resource(services).Namespace("default").Create(t.Context(), object(t, text),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
		s.same(t, services, "default", name)
		s.same(t, ipAddresses, "", fmt.Sprintf("10.0.0.%d", 5+i))
		again := object(t, strings.Replace(text, name, name+"-again", 1))
		if _, err := of.changed.Resource(services).Namespace("default").Create(t.Context(), again,
			metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
			t.Errorf("take what the other server has given out: %v", err)
		}
		if _, err := of.changed.Resource(services).Namespace("default").Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"spec":{"type":"ExternalName","externalName":"a.example"}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("give back what the other server has given out: %v", err)
		}
		if _, err := of.made.Resource(services).Namespace("default").Create(t.Context(), again,
			metav1.CreateOptions{}); err != nil {
			t.Errorf("take what was given back: %v", err)
		}
	}
	// kube-apiserver reads what gapless has written.
	resp, err := etcdAt(t, s.cluster.EtcdURL()).Get(t.Context(), "/registry/ranges/servicenodeports", clientv3.WithLimit(1))
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("read the registration: %v, %v", resp, err)
	}
	deleteAll(t, s.cluster.EtcdURL(), s.kubectl, s.replica)
}
