package faults_test

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestActionsRefuseRequestsOnTheWire: what a client sees of the actions that are about other
// requests than watches, and that the removal restores service.
func TestActionsRefuseRequestsOnTheWire(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	get := client.Request{Path: of.Path() + "/a"}
	put := client.Request{Method: http.MethodPut, Path: of.Path() + "/a", Body: []byte(`{"metadata":{"name":"a"}}`)}
	page := client.Request{
		Path: of.Path(), Query: url.Values{"limit": {"1"}, "continue": {wire.EncodeContinue(5_000_000_000, "a\x00")}},
	}
	for name, c2 := range map[string]struct {
		action  fault.Action
		request client.Request
		want    string
	}{
		"gone":                         {&fault.Gone{}, client.Request{Path: of.Path()}, "410"},
		"too-many-requests":            {&fault.TooManyRequests{RetryAfter: 2 * time.Second}, get, "429 after 2"},
		"too-many-requests, no header": {&fault.TooManyRequests{}, get, "429"},
		"unavailable":                  {&fault.Unavailable{RetryAfter: time.Second}, get, "503 after 1"},
		"unavailable, no header":       {&fault.Unavailable{}, get, "503"},
		"unauthorized":                 {&fault.Unauthorized{}, get, "401"},
		"forbidden":                    {&fault.Forbidden{}, get, "403"},
		"internal-error":               {&fault.InternalError{}, get, "500"},
		"conflict":                     {&fault.Conflict{}, put, "409"},
		"expired-continue":             {&fault.ExpiredContinue{}, page, "410"},
		"expired-continue, fresh":      {&fault.ExpiredContinue{Fresh: true}, page, "410 with a token"},
		"too-large-resource-version": {
			&fault.TooLarge{}, client.Request{Path: of.Path(), Query: url.Values{"resourceVersion": {"5"}}}, "504 after 1",
		},
		"no-protobuf, body": {
			&fault.NoProtobuf{},
			client.Request{
				Method: http.MethodPut, Path: put.Path, ContentType: "application/vnd.kubernetes.protobuf",
				Body: []byte("k8s\x00"),
			},
			"415",
		},
		"no-protobuf, accept": {
			&fault.NoProtobuf{}, client.Request{Path: of.Path(), Accept: "application/vnd.kubernetes.protobuf"}, "406",
		},
		"no-protobuf, with a choice": {
			&fault.NoProtobuf{},
			client.Request{Path: of.Path(), Accept: "application/vnd.kubernetes.protobuf,application/json"},
			"200",
		},
		"cut":                {&fault.Cut{}, get, "broken"},
		"cut, reset":         {&fault.Cut{How: "reset"}, get, "broken"},
		"lost-answer":        {&fault.LostAnswer{}, put, "broken"},
		"lost-answer, reset": {&fault.LostAnswer{How: "reset"}, put, "broken"},
		"delay":              {&fault.Delay{For: time.Millisecond}, get, "200"},
		"throttle":           {&fault.Throttle{BytesPerSecond: 100_000}, get, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.faults.Add(fault.Rule{
				Match: fault.Match{Namespaces: []string{of.Namespace}}, Action: c2.action,
			}); err != nil {
				t.Fatalf("add the rule: %v", err)
			}
			if got := outcome(do(t, c, c2.request)); got != c2.want {
				t.Errorf("%s, want %s", got, c2.want)
			}
			if err := do(t, c, client.Request{Path: "/api/v1/namespaces"}); err != nil {
				t.Errorf("another request: %v", err)
			}
			s.faults.Clear()
			if err := do(t, c, get); err != nil {
				t.Errorf("after the removal: %v", err)
			}
		})
	}
}

// outcome is the code of an error, with what else its Status says.
func outcome(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "200"
	case !errors.As(err, &status):
		return "broken"
	}
	text := strconv.Itoa(int(status.Status().Code))
	if d := status.Status().Details; d != nil && d.RetryAfterSeconds > 0 {
		text += " after " + strconv.Itoa(int(d.RetryAfterSeconds))
	}
	if status.Status().Continue != "" {
		text += " with a token"
	}
	return text
}

func TestWriteIsDoneWhenItsAnswerIsLost(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http1)
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"create"}, Nth: 2}, Action: &fault.LostAnswer{},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	add(t, c, of, "answered")
	lost := client.Request{Method: http.MethodPost, Path: of.Path(), Body: []byte(`{"metadata":{"name":"lost"}}`)}
	if got := outcome(do(t, c, lost)); got != "broken" {
		t.Errorf("the answer: %s", got)
	}
	if got := outcome(do(t, c, lost)); got != "409" {
		t.Errorf("the same again: %s", got)
	}
}

func TestExpiredContinueTokenIsReplacedByOneForTheRest(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"list"}}, Action: &fault.ExpiredContinue{Fresh: true},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	page := func(token string) (int, string, error) {
		n := 0
		meta, err := c.List(t.Context(), of, metav1.ListOptions{Limit: 1, Continue: token},
			func([]byte) error { n++; return nil })
		return n, meta.Continue, err
	}
	n, token, err := page("")
	if n != 1 || err != nil {
		t.Fatalf("the first page: %d, %v", n, err)
	}
	var status apierrors.APIStatus
	if _, _, err = page(token); !errors.As(err, &status) || status.Status().Continue == "" {
		t.Fatalf("the second page: %v", err)
	}
	if n, token, err := page(status.Status().Continue); n != 1 || token != "" || err != nil {
		t.Errorf("the rest: %d, %q, %v", n, token, err)
	}
}

func TestStaleListsComeFromOneOldState(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	cached := metav1.ListOptions{ResourceVersion: "0"}
	if err := s.faults.Add(fault.Rule{
		Name: "stale", Match: fault.Match{Verbs: []string{"list"}}, Action: &fault.Stale{},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	old, n, err := list(t, c, of, cached)
	if n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	add(t, c, of, "new")
	if rv, n, err := list(t, c, of, cached); rv != old || n != 2 || err != nil {
		t.Errorf("from a cache: %d objects at %d, %v", n, rv, err)
	}
	current, n, err := list(t, c, of, metav1.ListOptions{})
	if current <= old || n != 3 || err != nil {
		t.Errorf("the most recent: %d objects at %d, %v", n, current, err)
	}
	if _, _, err := list(t, c, of, metav1.ListOptions{ResourceVersion: current.String()}); outcome(err) != "504 after 1" {
		t.Errorf("not older than %d: %v", current, err)
	}
	s.faults.Remove("stale")
	if _, n, err := list(t, c, of, cached); n != 3 || err != nil {
		t.Errorf("after the removal: %d, %v", n, err)
	}
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"list"}}, Action: &fault.Stale{Behind: uint64(current - old), Quorum: true},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	if rv, n, err := list(t, c, of, metav1.ListOptions{}); rv != old || n != 2 || err != nil {
		t.Errorf("%d behind: %d objects at %d, %v", current-old, n, rv, err)
	}
}

func TestBookmarkIsRefusedOnceAtResume(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	if err := s.faults.Add(fault.Rule{Match: fault.Match{Verbs: []string{"watch"}}, Action: &fault.ShortHistory{}}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	w, err := c.Watch(t.Context(), of, streaming())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	rv := ""
	for rv == "" {
		f, err := w.Next()
		if err != nil {
			t.Fatalf("read the next: %v", err)
		}
		if meta, err := f.Meta(); err == nil && meta.Name == "" {
			rv = meta.ResourceVersion
		}
	}
	_ = w.Close() // it was read
	resume := func() string {
		seconds := int64(1)
		w, err := c.Watch(t.Context(), of, metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &seconds})
		if err != nil {
			return ending(err)
		}
		defer func() { _ = w.Close() }() // it was read
		_, err = w.Next()
		return ending(err)
	}
	if got := resume(); got != "410" {
		t.Errorf("resumed: %s", got)
	}
	if got := resume(); got != "end" {
		t.Errorf("resumed again: %s", got)
	}
}

func TestRestartLooksLikeOne(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	watch, err := clientOf(t, s.RESTConfig(), http1).Watch(t.Context(), of, streaming())
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer func() { _ = watch.Close() }() // it was read
	rule := fault.Rule{
		Name: "restart", Match: fault.Match{Verbs: []string{"list"}}, Action: &fault.Restart{For: time.Minute}, Count: 1,
	}
	if err := s.faults.Add(rule); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	c := clientOf(t, s.RESTConfig(), http2)
	for range 3 {
		if _, _, err := list(t, c, of, metav1.ListOptions{}); outcome(err) != "broken" {
			t.Errorf("list: %v", err)
		}
	}
	for err == nil {
		_, err = watch.Next()
	}
	if got := ending(err); got != "broken" {
		t.Errorf("the watch: %v", err)
	}
	s.faults.Remove("restart")
	if _, n, err := list(t, c, of, metav1.ListOptions{}); n != 2 || err != nil {
		t.Errorf("after the removal: %d, %v", n, err)
	}
}

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
	`"metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

func TestDefinitionIsChangedUnderAWatch(t *testing.T) {
	s := launch(t)
	c := clientOf(t, s.RESTConfig(), http2)
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	post(t, c, path, widgets)
	of := client.Collection{Namespace: "default"}
	of.Group, of.Version, of.Resource = "example.com", "v1", "widgets"
	eventually(t, "widgets are served", func() bool { _, _, err := list(t, c, of, metav1.ListOptions{}); return err == nil })
	rule := fault.Rule{
		Match: fault.Match{Verbs: []string{"watch"}, Resources: []string{"widgets.example.com"}, Nth: 1},
		Action: &fault.Definition{
			Name: "widgets.example.com", Do: "edit",
			Patch: map[string]any{"metadata": map[string]any{"labels": map[string]any{"edited": "yes"}}},
		},
	}
	if err := s.faults.Add(rule); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	watch, err := c.Watch(t.Context(), of, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	eventually(t, "the definition is edited", func() bool {
		body, err := c.Get(t.Context(), path+"/widgets.example.com", "")
		return err == nil && strings.Contains(string(body), `"edited":"yes"`)
	})
	_ = watch.Close() // it was read
	rule.Action = &fault.Definition{Name: "widgets.example.com", Do: "remove"}
	if err := s.faults.Add(rule); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	if watch, err = c.Watch(t.Context(), of, metav1.ListOptions{}); err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer func() { _ = watch.Close() }() // it was read
	for err == nil {
		_, err = watch.Next() // until its resource is gone
	}
	for _, state := range s.faults.Rules() {
		if state.Problem != "" {
			t.Errorf("%s: %s", state.Rule.Name, state.Problem)
		}
	}
}

// eventually waits for something that the server does by itself.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestResourceVersionsCrossAPowerOfTen is the fault for which no rule is needed.
func TestResourceVersionsCrossAPowerOfTen(t *testing.T) {
	s := launch(t, func(c *gapless.Config) { c.ResourceVersionBase, c.Bootstrap = 999_990, gapless.BootstrapNone })
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	watch, err := c.Watch(t.Context(), of, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer func() { _ = watch.Close() }() // it was read
	var seen []string
	for i := 0; len(seen) < 20; i++ {
		if i > 1 {
			add(t, c, of, "n"+strconv.Itoa(i))
		}
		f, err := watch.Next()
		if err != nil {
			t.Fatalf("read the watch: %v", err)
		}
		meta, err := f.Meta()
		if err != nil {
			t.Fatalf("read the metadata: %v", err)
		}
		seen = append(seen, meta.ResourceVersion)
	}
	if len(seen[0]) != 6 || len(seen[len(seen)-1]) != 7 {
		t.Errorf("%q", seen)
	}
}
