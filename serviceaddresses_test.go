package gapless_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// clientOf is a client of a server.
func clientOf(t *testing.T, s launched) *kubernetes.Clientset {
	t.Helper()
	cfg := s.RESTConfig()
	cfg.QPS, cfg.Burst = 1000, 1000
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return client
}

func serviceOf(name string, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	for _, port := range ports {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, port
	}
	return s
}

// TestServicesKeepTheirAddressesOverARestart, and no other Service gets them.
func TestServicesKeepTheirAddressesOverARestart(t *testing.T) {
	cfg := gapless.Config{DataDir: t.TempDir(), ServiceClusterIPRanges: []string{"10.9.0.0/25", "fd09::/112"}}
	s := launch(t, cfg)
	client := clientOf(t, s)
	own, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || own.Spec.ClusterIP != "10.9.0.1" {
		t.Fatalf("the Service kubernetes: %v, %v", own, err)
	}
	cidr, err := client.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || strings.Join(cidr.Spec.CIDRs, ",") != "10.9.0.0/25,fd09::/112" || len(cidr.Status.Conditions) != 1 {
		t.Fatalf("the ServiceCIDR kubernetes: %v, %v", cidr, err)
	}
	if _, err := client.NetworkingV1().IPAddresses().Get(t.Context(), "10.9.0.1", metav1.GetOptions{}); err != nil {
		t.Errorf("the IPAddress of the Service kubernetes: %v", err)
	}
	seen := map[string]bool{"10.9.0.1": true}
	take := func(client *kubernetes.Clientset, prefix string, n int) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				service := serviceOf(fmt.Sprintf("%s%d", prefix, i), 0)
				made, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create a Service: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, one := range []string{made.Spec.ClusterIP, fmt.Sprint(made.Spec.Ports[0].NodePort)} {
					if seen[one] || one == "" || one == "0" {
						t.Errorf("%s has %s, which is taken", made.Name, one)
					}
					seen[one] = true
				}
			})
		}
		wg.Wait()
	}
	take(client, "a", 64)
	s.stop()
	s = launch(t, cfg)
	client = clientOf(t, s)
	take(client, "b", 60)
	_, err = client.CoreV1().Services("default").Create(t.Context(), serviceOf("b-more"), metav1.CreateOptions{})
	for i := 0; err == nil && i < 3; i++ {
		_, err = client.CoreV1().Services("default").Create(t.Context(), serviceOf(fmt.Sprintf("c%d", i)), metav1.CreateOptions{})
	}
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "range is full") {
		t.Errorf("more than there are: %v", err)
	}
	if err := client.CoreV1().RESTClient().Delete().Namespace("default").Resource("services").
		Param("fieldSelector", "metadata.name!=kubernetes").Do(t.Context()).Error(); err != nil {
		t.Fatalf("delete all Services: %v", err)
	}
	left, err := client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 {
		t.Errorf("IPAddresses are left: %v, %v", left, err)
	}
}

// TestTheRangeOfADirectoryStays, as upstream's ServiceCIDR: what has addresses of another one goes on.
func TestTheRangeOfADirectoryStays(t *testing.T) {
	cfg := gapless.Config{
		DataDir: t.TempDir(), ServiceClusterIPRanges: []string{"10.9.0.0/24"}, ServiceNodePortRange: "20000-20099",
	}
	s := launch(t, cfg)
	made, err := clientOf(t, s).CoreV1().Services("default").Create(t.Context(), serviceOf("a", 0), metav1.CreateOptions{})
	if err != nil || made.Spec.Ports[0].NodePort/100 != 200 {
		t.Fatalf("create a Service: %v, %v", made, err)
	}
	s.stop()
	client := clientOf(t, launch(t, gapless.Config{DataDir: cfg.DataDir}))
	if _, err := client.CoreV1().Services("default").Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("change a Service with a port out of the range: %v", err)
	}
	other, err := client.CoreV1().Services("default").Create(t.Context(), serviceOf("b", 0), metav1.CreateOptions{})
	if err != nil || !strings.HasPrefix(other.Spec.ClusterIP, "10.9.0.") || other.Spec.Ports[0].NodePort < 30000 {
		t.Errorf("create a Service: %v, %v", other, err)
	}
}

func TestRangesOfNoUseAreRefused(t *testing.T) {
	for want, cfg := range map[string]gapless.Config{
		"--service-cluster-ip-range must not contain more than two entries": {
			ServiceClusterIPRanges: []string{"10.0.0.0/24", "fd00::/112", "10.1.0.0/24"},
		},
		"service-cluster-ip-range[1] is not a valid cidr": {ServiceClusterIPRanges: []string{"10.0.0.0/24", "x"}},
		"must be of different IP family":                  {ServiceClusterIPRanges: []string{"10.0.0.0/24", "10.1.0.0/24"}},
		"want a larger range":                             {ServiceClusterIPRanges: []string{"10.0.0.0/32"}},
		"--service-node-port-range \"x\"":                 {ServiceNodePortRange: "x"},
		"--service-node-port-range \"0-0\"":               {ServiceNodePortRange: "0-0"},
	} {
		cfg.Memory = true
		if _, err := gapless.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v %q: %v, want %s", cfg.ServiceClusterIPRanges, cfg.ServiceNodePortRange, err, want)
		}
	}
	err := tryRun(t, gapless.Config{Memory: true, Listen: "127.0.0.1:0", ServiceClusterIPRanges: []string{"fd00::/112"}})
	if err == nil || !strings.Contains(err.Error(), "must match public address family") {
		t.Errorf("a range of another family than the server's address: %v", err)
	}
}
