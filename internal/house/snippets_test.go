package house_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/informer"
)

// The functions here have the snippets of the documents, which
// TestGoSnippetsInDocsAreCompiled looks up, and the tests run them.

type (
	onPod func(context.Context, *corev1.Pod) error
	onKey func(context.Context, informer.Key) error
)

// handlePods is README.md, Informers in Go.
func handlePods(ctx context.Context, reconcile, forget onPod) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	pods := informer.New(informer.For[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods")))
	pods.Handle(func(ctx context.Context, e informer.Event[*corev1.Pod]) error {
		if e.Type == informer.Deleted {
			return forget(ctx, e.Old) // its last state
		}
		return reconcile(ctx, e.New) // after an error it is tried again, with the newest state
	}, informer.Workers(4))
	return pods.Run(ctx) // until ctx ends
}

// embed is docs/testing.md, A server in a Go program.
func embed(ctx context.Context, use func(context.Context, *kubernetes.Clientset) error) error {
	server, err := gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0"}) // port 0: a free one
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-ended: // it could not start, and says why
		return err
	}
	clientset, err := kubernetes.NewForConfig(server.RESTConfig())
	if err == nil {
		err = use(ctx, clientset)
	}
	stop()
	return errors.Join(err, <-ended) // Run returns when the server has drained
}

// reconcilePods is MIGRATING-from-client-go.md.
func reconcilePods(ctx context.Context, cfg *rest.Config, reconcile onPod, cleanUp onKey) error {
	pods := informer.New(informer.For[*corev1.Pod](cfg, corev1.SchemeGroupVersion.WithResource("pods")))
	pods.Reconcile(func(ctx context.Context, key informer.Key) error {
		pod, found := pods.Get(key)
		if !found {
			return cleanUp(ctx, key) // it is deleted
		}
		return reconcile(ctx, pod)
	}, informer.Workers(4))
	return pods.Run(ctx)
}

// measured is docs/informer.md, metrics.
func measured(registry prometheus.Registerer) informer.Option {
	counters := map[informer.Metric]*prometheus.CounterVec{}
	gauges := map[informer.Metric]*prometheus.GaugeVec{}
	histograms := map[informer.Metric]*prometheus.HistogramVec{}
	for _, m := range informer.AllMetrics() {
		switch m.Type() {
		case informer.Counter:
			counters[m] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.String(), Help: m.Help()}, m.Labels())
			registry.MustRegister(counters[m])
		case informer.Gauge:
			gauges[m] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.String(), Help: m.Help()}, m.Labels())
			registry.MustRegister(gauges[m])
		case informer.Histogram:
			histograms[m] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: m.String(), Help: m.Help(), Buckets: prometheus.ExponentialBuckets(0.01, 4, 12),
			}, m.Labels())
			registry.MustRegister(histograms[m])
		}
	}
	return informer.Metrics(func(s informer.Sample) {
		switch s.Metric.Type() {
		case informer.Counter:
			counters[s.Metric].WithLabelValues(s.Labels...).Add(s.Value)
		case informer.Gauge:
			gauges[s.Metric].WithLabelValues(s.Labels...).Set(s.Value)
		case informer.Histogram:
			histograms[s.Metric].WithLabelValues(s.Labels...).Observe(s.Value)
		}
	})
}

func TestSnippetThatEmbedsAServerWorks(t *testing.T) {
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	used := false
	err := embed(within, func(ctx context.Context, clients *kubernetes.Clientset) error {
		list, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		used = err == nil && len(list.Items) > 0
		return err
	})
	if err != nil || !used {
		t.Errorf("used: %v, %v", used, err)
	}
}

// TestSnippetsOfInformersWork creates a pod and deletes it, and waits until both
// controllers received each.
func TestSnippetsOfInformersWork(t *testing.T) {
	s := gaplesstest.New(t)
	t.Setenv("KUBECONFIG", s.Kubeconfig())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	told, ended := make(chan string), make(chan error)
	tell := func(ctx context.Context, what string) error {
		select {
		case told <- what:
		case <-ctx.Done():
		}
		return nil
	}
	see := func(ctx context.Context, p *corev1.Pod) error { return tell(ctx, "there: "+p.Name) }
	go func() { // both end with ctx, and are waited for
		ended <- handlePods(ctx, see, func(ctx context.Context, p *corev1.Pod) error { return tell(ctx, "gone: "+p.Name) })
	}()
	go func() {
		ended <- reconcilePods(ctx, s.RESTConfig(), see, func(ctx context.Context, k informer.Key) error {
			return tell(ctx, "gone: "+k.Name)
		})
	}()
	// both takes what both controllers tell.
	both := func(want string) {
		for n := 0; n < 2; {
			select {
			case got := <-told:
				switch got {
				case want:
					n++
				case "there: web": // a pod is marked before it is removed
				default:
					t.Fatalf("told %q, want %q", got, want)
				}
			case <-ctx.Done():
				t.Fatalf("not told %q", want)
			}
		}
	}
	pods := kubernetes.NewForConfigOrDie(s.RESTConfig()).CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	both("there: web")
	if err := pods.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	both("gone: web")
	stop()
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
}

func TestMetricsSnippetCountsAllMetrics(t *testing.T) {
	s := gaplesstest.New(t)
	registry := prometheus.NewRegistry()
	pods := informer.New(informer.For[*corev1.Pod](s.RESTConfig(), corev1.SchemeGroupVersion.WithResource("pods")),
		measured(registry))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }() // ends with stop
	if err := pods.WaitSynced(ctx); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lists := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == informer.MetricLists.String() })
	if lists < 0 || families[lists].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("one list should have been counted: %v", families)
	}
}

var goSnippet = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestGoSnippetsInDocsAreCompiled finds each of them in this file or in those of packages
// fault, gaplesstest and gaplesstest/processtest, where it is compiled and run.
func TestGoSnippetsInDocsAreCompiled(t *testing.T) {
	code := ""
	for _, path := range []string{
		"internal/house/snippets_test.go", "fault/snippets_test.go", "gaplesstest/snippets_test.go",
		"gaplesstest/processtest/snippets_test.go",
	} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code += withoutIndentation(string(raw))
	}
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, snippet := range goSnippet.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(code, withoutIndentation(snippet[1])) {
				t.Errorf("%s has a snippet that is not in snippets_test.go, so it is not compiled and run:\n%s", path, snippet[1])
			}
		}
		return err
	})
	if err != nil || found < 4 {
		t.Errorf("%d snippets were found, %v", found, err)
	}
}

// TestMakeTargetsInDocsExist looks at what the pages tell to run with make.
func TestMakeTargetsInDocsExist(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, pages := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		paths, err := filepath.Glob(pages)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
				named++
				if !strings.Contains(string(makefile), "\n"+m[1]+":") {
					t.Errorf("%s says make %s, and the Makefile has no such target", path, m[1])
				}
			}
		}
	}
	if named < 10 {
		t.Errorf("the pages name %d targets: they are not read as they should be", named)
	}
}

func withoutIndentation(code string) string {
	lines := strings.Split(code, "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}
