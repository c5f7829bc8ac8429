package gapless_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
)

// TestAStartWaitsForEtcd: as long as etcd is not there it answers that it lives, is not ready, and why, and
// refuses everything else for the moment.
func TestAStartWaitsForEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // it takes connections and answers nothing
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = silent.Close() }) // nothing is written to it
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	log := &messages{text: "for=store", found: make(chan struct{})}
	cfg := gapless.Config{
		DataDir: t.TempDir(), Listen: listener.Addr().String(), Listener: listener,
		Etcd:   gapless.Etcd{Servers: []string{"http://" + silent.Addr().String()}},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	select {
	case <-log.found:
	case err := <-ended:
		t.Fatalf("the start has ended: %v", err)
	}
	client, err := clientcmd.BuildConfigFromFlags("", cfg.DataDir+"/kubeconfig")
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	web := webClient(t, client)
	for _, path := range []string{"/livez", "/livez/etcd", "/healthz/etcd"} {
		if code, body := ask(t, web, client.Host+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	code, body := ask(t, web, client.Host+"/readyz")
	if code != http.StatusInternalServerError {
		t.Errorf("/readyz: %d %s", code, body)
	}
	for _, want := range []string{"[-]etcd failed: ", "[-]etcd-quorum failed: ", "[-]start failed: ", "etcd has not answered"} {
		if !strings.Contains(body, want) {
			t.Errorf("/readyz says %s, want %s in it", body, want)
		}
	}
	// Who waits for this one, as envtest and kind do, sends requests then.
	code, body = ask(t, web, client.Host+"/healthz")
	if code != http.StatusInternalServerError || !strings.Contains(body, "[-]start failed: ") {
		t.Errorf("/healthz: %d %s", code, body)
	}
	for _, path := range []string{"/api/v1/namespaces", "/version", "/metrics"} {
		code, body := ask(t, web, client.Host+path)
		var status metav1.Status
		if err := json.Unmarshal([]byte(body), &status); code != http.StatusServiceUnavailable || err != nil ||
			status.Details == nil || status.Details.RetryAfterSeconds < 1 {
			t.Errorf("%s: %d %s: want 503 with the time until the next attempt", path, code, body)
		}
	}
	old := rest.CopyConfig(client)
	old.NextProtos = []string{"http/1.1"} // where one sees it
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.Host+"/version", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := webClient(t, old).Do(req)
	if err != nil {
		t.Fatalf("ask over HTTP/1.1: %v", err)
	}
	if _ = resp.Body.Close(); !resp.Close { // it was not read
		t.Error("the connection of a refused request stays open: behind a balancer its client does not get to another server")
	}
	select {
	case <-s.Ready():
		t.Error("it says that it is ready")
	case err := <-ended:
		ended <- nil
		t.Errorf("the start has ended: %v", err)
	default:
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}
