package informer_test

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

func podsOf(cfg *rest.Config, opts ...informer.SourceOption) informer.Source[*corev1.Pod] {
	return informer.For[*corev1.Pod](cfg, corev1.SchemeGroupVersion.WithResource("pods"), opts...)
}

func TestSourcesOfTheSameObjectsHaveTheSameIdentity(t *testing.T) {
	cfg := &rest.Config{Host: "https://127.0.0.1:1"}
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	a := podsOf(cfg, informer.Namespace("n"), informer.Labels(web), informer.StripManagedFields())
	b := podsOf(rest.CopyConfig(cfg), informer.StripManagedFields(), informer.Labels(web), informer.Namespace("n"))
	if a.Identity() != b.Identity() {
		t.Errorf("%v is not %v", a.Identity(), b.Identity())
	}
	if x, y := informer.Encode(a).Identity(), informer.Encode(b).Identity(); x != y {
		t.Errorf("encoded: %v is not %v", x, y)
	}
	if a.Name() != "pods/n" {
		t.Errorf("the source is called %q", a.Name())
	}
}

func TestSourcesOfOtherObjectsHaveOtherIdentities(t *testing.T) {
	cfg := &rest.Config{Host: "https://127.0.0.1:1"}
	decode := informer.JSON[*corev1.Pod]()
	keep := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
	everywhere := podsOf(cfg)
	altered := podsOf(cfg).Transform(keep)
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	beta := pods
	beta.Version = "v2"
	seen := map[informer.Identity]string{}
	for name, id := range map[string]informer.Identity{
		"all":                everywhere.Identity(),
		"of another server":  podsOf(&rest.Config{Host: "https://127.0.0.1:2"}).Identity(),
		"for somebody else":  podsOf(&rest.Config{Host: "https://127.0.0.1:1", BearerToken: "t"}).Identity(),
		"of a namespace":     podsOf(cfg, informer.Namespace("n")).Identity(),
		"of a label":         podsOf(cfg, informer.Labels(labels.SelectorFromSet(labels.Set{"n": "n"}))).Identity(),
		"of a field":         podsOf(cfg, informer.Fields(fields.OneTermEqualSelector("n", "n"))).Identity(),
		"of a shard":         podsOf(cfg, informer.Shard(0, 2)).Identity(),
		"of another shard":   podsOf(cfg, informer.Shard(1, 2)).Identity(),
		"of two namespaces":  podsOf(cfg, informer.Namespaces("n", "m")).Identity(),
		"stripped":           podsOf(cfg, informer.StripManagedFields()).Identity(),
		"of another version": informer.For[*corev1.Pod](cfg, beta).Identity(),
		"of another resource": informer.For[*corev1.Pod](cfg,
			corev1.SchemeGroupVersion.WithResource("podtemplates")).Identity(),
		"metadata":                 informer.For[*metav1.PartialObjectMetadata](cfg, pods).Identity(),
		"encoded":                  informer.Encode(everywhere).Identity(),
		"altered":                  altered.Identity(),
		"altered by who knows":     podsOf(cfg).Transform(keep).Identity(),
		"altered twice":            altered.Transform(keep).Identity(),
		"altered, then encoded":    informer.Encode(altered).Identity(),
		"from a backend":           informer.From("pods", nil, decode).Identity(),
		"from an equal backend":    informer.From("pods", nil, decode).Identity(),
		"nothing":                  informer.Source[*corev1.Pod]{}.Identity(),
		"of no server":             podsOf(nil).Identity(),
		"in a namespace like path": podsOf(cfg, informer.Namespace("n/pods")).Identity(),
	} {
		if other, is := seen[id]; is {
			t.Errorf("pods %s and pods %s have one identity", name, other)
		}
		seen[id] = name
	}
	if copied := altered; copied.Identity() != altered.Identity() {
		t.Error("a copy of a source has another identity")
	}
}

func TestOptionsAreComparedByValue(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	hear, record := informer.OnError(func(informer.Incident) {}), informer.Metrics(func(informer.Sample) {})
	list := func(opts ...informer.Option) []informer.Option { return opts }
	for name, c := range map[string]struct {
		a, b []informer.Option
		want bool
	}{
		"none":          {nil, list(), true},
		"a value":       {list(informer.NoStreamingLists()), list(informer.NoStreamingLists()), true},
		"another value": {list(informer.NoStreamingLists()), nil, false},
		"one logger":    {list(informer.Logger(log)), list(informer.Logger(log)), true},
		"another order": {
			list(informer.Logger(log), informer.NoStreamingLists()), list(informer.NoStreamingLists(), informer.Logger(log)),
			true,
		},
		"two loggers":                {list(informer.Logger(log)), list(informer.Logger(slog.New(slog.DiscardHandler))), false},
		"a logger":                   {list(informer.Logger(log)), nil, false},
		"a function":                 {list(hear), nil, false},
		"one function":               {list(hear), list(hear), false},
		"functions, and a value":     {list(record, informer.NoStreamingLists()), list(record), false},
		"no logger is as none given": {list(informer.Logger(nil)), nil, true},
	} {
		if got := informer.SameOptions(c.a, c.b); got != c.want {
			t.Errorf("%s: same is %v, want %v", name, got, c.want)
		}
		if got := informer.SameOptions(c.b, c.a); got != c.want {
			t.Errorf("%s, the other way round: same is %v, want %v", name, got, c.want)
		}
	}
}
