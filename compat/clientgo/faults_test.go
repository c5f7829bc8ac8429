package clientgo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// with are the parameters of actions without which they are refused, or do nothing here.
func with() map[string]map[string]any {
	return map[string]map[string]any{
		"delay": {"for": "20ms", "event": "5ms"}, "throttle": {"bytesPerSecond": 4000}, "restart": {"for": "100ms"},
		"cut": {"frames": 1}, "silence": {"frames": 1},
	}
}

// TestInformersConvergeUnderEachFault: when a fault is removed, at the latest, client-go's informer has the
// server's state. The actions are those of docs/faults.md; e2e/faults has the same for ours.
func TestInformersConvergeUnderEachFault(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "faults.md"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	s := harness.Start(t, "--enable-faults")
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	actions := regexp.MustCompile(`(?m)^## ([a-z0-9-]+)$`).FindAllStringSubmatch(string(page), -1)
	if len(actions) < 25 {
		t.Fatalf("the page has %d actions", len(actions))
	}
	for _, a := range actions {
		switch a[1] {
		case "definition", "conflict", "store-write": // nothing that an informer of built-in kinds would meet
			continue
		}
		t.Run(a[1], func(t *testing.T) { converges(t, cfg, a[1]) })
	}
}

func converges(t *testing.T, cfg *rest.Config, action string) {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	// A configuration with a Dial has connections of its own: a silent one concerns all its requests.
	cfg.Dial = new(net.Dialer).DialContext
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	clients, err := kubernetes.NewForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	// Rules are changed, and objects written, on other connections than the informer's.
	direct, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(direct.CloseIdleConnections)
	writes, err := kubernetes.NewForConfigAndClient(cfg, direct)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	namespace := "of-" + action
	if _, err := writes.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespaces: %v", err)
	}
	add(t, writes, namespace, "a")
	rule := map[string]any{"action": action, "match": map[string]any{"resources": []string{"configmaps"}}, "count": 3}
	if parameters := with()[action]; parameters != nil {
		rule["with"] = parameters
	}
	faults(t, direct, http.MethodPost, cfg.Host, []any{rule})
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	inf := factory.Core().V1().ConfigMaps().Informer()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	<-time.After(200 * time.Millisecond) // until the fault has shown, or has nothing to act on
	faults(t, direct, http.MethodDelete, cfg.Host, nil)
	add(t, writes, namespace, "late")
	if action == "undecodable" { // nothing else tells the client what it could not read
		change := []byte(`{"metadata":{"labels":{"again":"yes"}}}`)
		if _, err := writes.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "a", "application/merge-patch+json", change,
			metav1.PatchOptions{}); err != nil {
			t.Fatalf("patch config maps: %v", err)
		}
	}
	within := time.After(2 * time.Minute)
	for {
		_, first, _ := inf.GetStore().GetByKey(namespace + "/a")
		_, late, _ := inf.GetStore().GetByKey(namespace + "/late")
		if first && late {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-within:
			t.Fatalf("after two minutes the informer has %v", inf.GetStore().ListKeys())
		}
	}
}

func add(t *testing.T, clients kubernetes.Interface, namespace, name string) {
	t.Helper()
	_, err := clients.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create config maps: %v", err)
	}
}

// faults changes the rules of the server.
func faults(t *testing.T, web *http.Client, method, host string, rules any) {
	t.Helper()
	body, err := json.Marshal(rules)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, host+"/faults", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := web.Do(request)
	if err != nil {
		t.Fatalf("do web: %v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatal(fmt.Errorf("%s /faults: %d %s", method, answer.StatusCode, text))
	}
}
