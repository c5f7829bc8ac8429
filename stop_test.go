package gapless_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/seam"
)

// TestWatchesOfAServerThatStopsAtOnceEnd: over HTTP/2 the end of an answer is written after
// net/http has called its connection idle, and a client without it sees a failure.
func TestWatchesOfAServerThatStopsAtOnceEnd(t *testing.T) {
	servers := 20
	if testing.Short() {
		servers = 3
	}
	for range servers {
		set := gapless.Config{Memory: true, DataDir: t.TempDir(), Listen: "127.0.0.1:0"}
		seam.Of(&set).StopAtOnce = true
		s, err := gapless.New(set)
		if err != nil {
			t.Fatalf("make the server: %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }() // it ends with ctx
		select {
		case <-s.Ready():
		case err := <-ended:
			t.Fatalf("wait for the end: %v", err)
		}
		cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
		if err != nil {
			t.Fatalf("read the kubeconfig: %v", err)
		}
		var clients sync.WaitGroup
		for range 8 {
			watch := openWatch(t, cfg)
			clients.Go(func() {
				_, err := io.Copy(io.Discard, watch.Body)
				if err := errors.Join(err, watch.Body.Close()); err != nil {
					t.Errorf("a watch ends with %v, want its end", err)
				}
			})
		}
		stop()
		clients.Wait()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}
}

// openWatch watches ConfigMaps on a connection of its own.
func openWatch(t *testing.T, cfg *rest.Config) *http.Response {
	t.Helper()
	own := rest.CopyConfig(cfg)
	own.Proxy = http.ProxyFromEnvironment // a transport of its own: functions are not compared
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	watch, err := client.Get(own.Host + "/api/v1/namespaces?watch=true") // a watch that has sent nothing stays for a while
	if err != nil {
		t.Fatalf("get client: %v", err)
	}
	if watch.ProtoMajor != 2 || watch.StatusCode != http.StatusOK {
		t.Fatalf("the watch is %s, over HTTP/%d", watch.Status, watch.ProtoMajor)
	}
	return watch
}
