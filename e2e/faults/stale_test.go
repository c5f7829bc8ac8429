package faults_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/kube"
)

// label changes a label of an object.
func label(t testing.TB, c *client.Client, of client.Collection, name, value string) {
	t.Helper()
	if err := do(t, c, client.Request{
		Method: http.MethodPatch, Path: of.Path() + "/" + name, ContentType: "application/merge-patch+json",
		Body: []byte(`{"metadata":{"labels":{"value":"` + value + `"}}}`),
	}); err != nil {
		t.Fatalf("run: %v", err)
	}
}

func TestStaleGetsShowAnObjectAsItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	label(t, c, of, "a", "old")
	if err := s.faults.Add(fault.Rule{
		Name: "stale", Match: fault.Match{Resources: []string{"configmaps"}}, Action: &fault.Stale{},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	if _, _, err := list(t, c, of, metav1.ListOptions{ResourceVersion: "0"}); err != nil { // the state from now on
		t.Fatalf("list: %v", err)
	}
	label(t, c, of, "a", "new")
	add(t, c, of, "later")
	cfg := s.RESTConfig()
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		cfg.ContentType, cfg.AcceptContentTypes = media, media
		typed, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatalf("make a client: %v", err)
		}
		maps := typed.CoreV1().ConfigMaps(of.Namespace)
		for rv, want := range map[string]string{"0": "old", "": "new"} {
			got, err := maps.Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: rv})
			if err != nil || got.Labels["value"] != want || got.Name != "a" {
				t.Errorf("%s: resourceVersion %q: %v, %v; want %s", media, rv, got, err, want)
			}
		}
		if _, err := maps.Get(t.Context(), "later", metav1.GetOptions{ResourceVersion: "0"}); outcome(err) != "404" {
			t.Errorf("%s: a later object: %v", media, err)
		}
		newest, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("get maps: %v", err)
		}
		if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{
			ResourceVersion: newest.ResourceVersion,
		}); outcome(err) != "504 after 1" {
			t.Errorf("%s: not older than the newest: %v", media, err)
		}
	}
	body, err := c.Do(t.Context(), client.Request{
		Path: of.Path() + "/a", Query: map[string][]string{"resourceVersion": {"0"}},
		Accept: "application/json;as=Table;g=meta.k8s.io;v=v1",
	})
	if err != nil {
		t.Fatalf("send a request: %v", err)
	}
	defer func() { _ = body.Body.Close() }() // it was read
	var table metav1.Table
	if err := json.NewDecoder(body.Body).Decode(&table); err != nil || table.Kind != "Table" || len(table.Rows) != 1 {
		t.Errorf("as a table: %+v, %v", table, err)
	}
}

// TestStaleWatchesHaveNoNewerEvents: a watch shows the older state and nothing after it, until
// the rule is removed.
func TestStaleWatchesHaveNoNewerEvents(t *testing.T) {
	for _, w := range []way{http1, http2, protobuf} {
		s := launch(t)
		of := configMaps(t, s)
		c := clientOf(t, s.RESTConfig(), w)
		if err := s.faults.Add(fault.Rule{
			Match: fault.Match{Resources: []string{"configmaps"}}, Action: &fault.Stale{},
		}); err != nil {
			t.Fatalf("add the rule: %v", err)
		}
		old, _, err := list(t, c, of, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		add(t, c, of, "new")
		options := streaming()
		options.ResourceVersion = "0"
		watch, err := c.Watch(t.Context(), of, options)
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		var got []string
		var last kube.ResourceVersion
		for range 3 {
			f, err := watch.Next()
			if err != nil {
				t.Fatalf("read the watch: %v", err)
			}
			meta, err := f.Meta()
			if err != nil {
				t.Fatalf("read the metadata: %v", err)
			}
			got = append(got, strings.TrimSpace(f.Type.String()+" "+meta.Name))
			last, _ = kube.ParseResourceVersion(meta.ResourceVersion)
		}
		if want := []string{"ADDED a", "ADDED b", "BOOKMARK"}; !slices.Equal(got, want) || last != old {
			t.Errorf("%s: %q at %d, want %q at %d", w, got, last, want, old)
		}
		add(t, c, of, "newer")
		s.faults.Clear()
		if _, err := watch.Next(); ending(err) != "broken" {
			t.Errorf("%s: at the removal: %v", w, err)
		}
		_ = watch.Close() // it was cut
		options = metav1.ListOptions{ResourceVersion: last.String()}
		watch, err = c.Watch(t.Context(), of, options)
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		for _, want := range []string{"new", "newer"} {
			f, err := watch.Next()
			if err != nil {
				t.Fatalf("read the watch: %v", err)
			}
			if meta, err := f.Meta(); err != nil || meta.Name != want {
				t.Errorf("%s: resumed: %v, %v; want %s", w, meta, err, want)
			}
		}
		_ = watch.Close() // it was read
	}
}

func TestWatchBehindDeliversWhatIsOldEnough(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	rv, _, err := list(t, c, of, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"watch"}, Namespaces: []string{of.Namespace}}, Action: &fault.Stale{Behind: 3},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	watch, err := c.Watch(t.Context(), of, metav1.ListOptions{ResourceVersion: rv.String()})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer func() { _ = watch.Close() }() // it was read
	for _, name := range []string{"1", "2", "3", "4"} {
		add(t, c, of, name)
	}
	f, err := watch.Next()
	if err != nil {
		t.Fatalf("read the watch: %v", err)
	}
	if meta, err := f.Meta(); err != nil || meta.Name != "1" {
		t.Errorf("%v, %v", meta, err)
	}
	s.faults.Clear()
	if _, err := watch.Next(); ending(err) != "broken" {
		t.Errorf("at the removal: %v", err)
	}
}
