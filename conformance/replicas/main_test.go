package replicas_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is a server over etcd, with a client of its own.
type replica struct {
	*gapless.Server

	client *kubernetes.Clientset
	cancel context.CancelFunc
	ended  chan error
}

// start starts a replica over the etcd at a URL; it ends with the test. change may change its configuration.
func start(t *testing.T, url, dir string, change func(*gapless.Config)) *replica {
	t.Helper()
	cfg := gapless.Config{
		DataDir: dir, Listen: "127.0.0.1:0", Etcd: gapless.Etcd{Servers: []string{url}}, Logger: logger(t),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("configure a replica: %v", err)
	}
	r := &replica{Server: s, ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { r.ended <- s.Run(ctx) }() // stop waits for it
	t.Cleanup(func() { r.stop(t) })
	select {
	case <-s.Ready():
	case err := <-r.ended:
		r.ended <- err
		t.Fatalf("run a replica: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("a replica is not ready after two minutes")
	}
	r.client = clientOf(t, s.RESTConfig())
	return r
}

// stop ends a replica as a signal does. It may be called again.
func (r *replica) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Errorf("the replica ended with %v", err)
	}
	r.ended <- nil
}

// clientOf returns a client that ends with the test.
func clientOf(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
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

// next returns the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		if !open {
			t.Fatal("the watch has ended")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event for a minute")
	}
	return watch.Event{}
}
