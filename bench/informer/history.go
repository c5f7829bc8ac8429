package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	informers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/informer"
)

const (
	// A watch of keptObjects is cut off for missedChanges. That is more than upstream's
	// watch cache holds for a resource of that size (100 to some thousand), so that it
	// would be a 410 there.
	keptObjects, missedChanges = 500, 5000
	readyWithin                = time.Minute
)

// histories is how often the state was read again, by the name of the run, when the
// watch of an informer of this module's server was cut off while much changed.
func histories(ctx context.Context) (_ map[string]figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-informer-*")
	if err != nil {
		return nil, fmt.Errorf("directory of the server: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, stop, err := gaplessServe(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	results := map[string]figures{}
	for _, name := range []string{clientGoHistory, ourHistory} {
		f, err := history(ctx, cfg, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results[name] = f
		fmt.Fprintf(os.Stderr, "%s: %.0f re-lists, %.2f s\n", name, f.Relists, f.Resumed)
	}
	return results, nil
}

// gaplessServe builds the server of this module and starts it in memory.
func gaplessServe(ctx context.Context, dir string) (*rest.Config, func() error, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/gapless-io/gapless/informer").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(module))) // the server is a module above the informer's
	program, ready := filepath.Join(dir, "gapless"), filepath.Join(dir, "ready.json")
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", program, "./cmd/gapless")
	build.Env = append(os.Environ(), "GOWORK=auto") // the root's own, even if the caller's is off
	if said, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build the server: %w: %s", err, said)
	}
	flags := []string{"--memory", "--listen", "127.0.0.1:0", "--ready-file", ready, "--log-level", "error"}
	flags = append(flags, "--data-dir", filepath.Join(dir, "data"))
	server := exec.Command(program, append([]string{"serve"}, flags...)...) //nolint:noctx // it is stopped by a signal, below
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the server: %w", err)
	}
	stop := func() error { return errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()) }
	var said struct{ Kubeconfig string }
	for deadline := time.Now().Add(readyWithin); said.Kubeconfig == ""; {
		text, err := os.ReadFile(ready)
		if err == nil {
			err = json.Unmarshal(text, &said)
		}
		if err != nil && time.Now().After(deadline) {
			return nil, nil, errors.Join(fmt.Errorf("the server is not ready: %w", err), stop())
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", said.Kubeconfig)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("kubeconfig: %w", err), stop())
	}
	cfg.QPS = -1
	return cfg, stop, nil
}

const clientGoHistory, ourHistory = "client-go typed, history", "typed, history"

// history is one informer whose watch is cut off while another client writes.
func history(ctx context.Context, cfg *rest.Config, name string) (f figures, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writer, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return f, fmt.Errorf("client: %w", err)
	}
	namespace := strings.NewReplacer(" ", "", ",", "-").Replace(name)
	if err := writeAll(ctx, writer, namespace, keptObjects, create); err != nil {
		return f, err
	}
	over, reads := newLine(), &atomic.Int64{}
	watched := rest.CopyConfig(cfg)
	watched.Dial = over.dial
	watched.Wrap(func(below http.RoundTripper) http.RoundTripper { return counting{below, reads} })
	t := &tally{}
	s, err := mapsOf(watched, namespace, name, t)
	if err != nil {
		return f, err
	}
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }() // ends with ctx, below
	defer func() {
		cancel()
		over.restore()
		err = errors.Join(err, <-done)
	}()
	if err := s.synced(ctx); err != nil {
		return f, err
	}
	first := reads.Load()
	over.cut()
	if err := writeAll(ctx, writer, namespace, missedChanges, update); err != nil {
		return f, err
	}
	now, err := writer.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(keptObjects), metav1.CreateOptions{})
	if err != nil {
		return f, fmt.Errorf("create the last: %w", err)
	}
	begun := time.Now()
	over.restore()
	for t.newest.Load() < rvOf(now) {
		if err := pause(ctx, time.Millisecond); err != nil {
			return f, fmt.Errorf("wait for %s: %w", now.ResourceVersion, err)
		}
	}
	f.Resumed, f.Relists = time.Since(begun).Seconds(), float64(reads.Load()-first)
	return f, nil
}

func mapsOf(cfg *rest.Config, namespace, name string, t *tally) (subject, error) {
	o := runOptions{handlers: 1}
	if name == ourHistory {
		gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		return ours(informer.For[*corev1.ConfigMap](cfg, gvr, informer.Namespace(namespace)), o, t), nil
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return subject{}, fmt.Errorf("client: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace))
	return stock(factory.Core().V1().ConfigMaps().Informer(), o, t)
}

func configMap(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%06d", n)}, Data: map[string]string{"a": "b"}}
}

func rvOf(o metav1.Object) int64 {
	t := &tally{}
	t.saw(o.GetResourceVersion())
	return t.newest.Load()
}

type write func(ctx context.Context, c kubernetes.Interface, namespace string, n int) error

func create(ctx context.Context, c kubernetes.Interface, namespace string, n int) error {
	_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(n), metav1.CreateOptions{})
	return err
}

func update(ctx context.Context, c kubernetes.Interface, namespace string, n int) error {
	o := configMap(n % keptObjects)
	o.Data["changed"] = fmt.Sprint(n)
	_, err := c.CoreV1().ConfigMaps(namespace).Update(ctx, o, metav1.UpdateOptions{})
	return err
}

// writeAll does n writes, some at a time.
func writeAll(ctx context.Context, c kubernetes.Interface, namespace string, n int, write write) error {
	if _, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := c.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for k := range n {
		group.Go(func() error { return write(ctx, c, namespace, k) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("write in %s: %w", namespace, err)
	}
	return nil
}

// counting counts the requests for a whole state: lists, and streaming lists.
type counting struct {
	below http.RoundTripper
	reads *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") == "true" {
		c.reads.Add(1)
	}
	return c.below.RoundTrip(r)
}

// line is the network between an informer and its server, which can be cut.
type line struct {
	// mu guards what follows.
	mu    sync.Mutex
	whole chan struct{} // closed while the line is whole
	conns []net.Conn
}

func newLine() *line {
	l := &line{whole: make(chan struct{})}
	close(l.whole)
	return l
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	select {
	case <-whole:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = make(chan struct{})
	for _, conn := range l.conns {
		_ = conn.Close() // it may be closed already
	}
	l.conns = nil
}

func (l *line) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}
