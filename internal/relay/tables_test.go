package relay_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/internal/relay"
)

// kubectlTable is what kubectl get accepts.
const kubectlTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

// altered is upstream behind a proxy that counts requests for tables, and changes answers.
type altered struct {
	config *rest.Config
	web    *httptest.Server

	// mu guards what follows.
	mu      sync.Mutex
	tables  []string // paths and queries of the relay's own requests for tables
	refuses bool     // connections break
	change  func(path string, body []byte) []byte
}

// newAltered puts a proxy before upstream, until the test ends.
func newAltered(t testing.TB, upstream *rest.Config) *altered {
	t.Helper()
	a := &altered{}
	to := passTo(t, upstream)
	a.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		refuses, change := a.refuses, a.change
		isTable := strings.Contains(r.Header.Get("Accept"), "as=Table")
		if isTable && strings.Contains(r.URL.RawQuery, "includeObject=Object&limit=1") {
			a.tables = append(a.tables, r.URL.RequestURI())
		}
		a.mu.Unlock()
		switch {
		case refuses:
			panic(http.ErrAbortHandler)
		case change == nil || !isTable || r.URL.Query().Has("watch"):
			to.ServeHTTP(w, r)
		default:
			r.Header.Del("Accept-Encoding")
			answer := httptest.NewRecorder()
			to.ServeHTTP(answer, r)
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(change(r.URL.Path, answer.Body.Bytes()))
		}
	}))
	t.Cleanup(func() {
		a.web.CloseClientConnections()
		a.web.Close()
	})
	a.config = &rest.Config{Host: a.web.URL}
	return a
}

func (a *altered) set(change func(path string, body []byte) []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.change = change
}

// refuse breaks all connections, until it is called with false.
func (a *altered) refuse(refuses bool) {
	a.mu.Lock()
	a.refuses = refuses
	a.mu.Unlock()
	if refuses {
		a.web.CloseClientConnections()
	}
}

// asked returns the requests for tables that have come.
func (a *altered) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.tables...)
}

// request sends a request to a server.
func request(t testing.TB, to *rest.Config, method, path string, body string) (code int, answer string) {
	t.Helper()
	code, stream := openTable(t, to, method, path, body)
	defer func() { _ = stream.Close() }()
	all, err := io.ReadAll(stream)
	if err != nil {
		t.Fatalf("read to the end: %v", err)
	}
	return code, string(all)
}

// openTable sends a request for a table, and returns the answer as it comes.
func openTable(t testing.TB, to *rest.Config, method, path string, body string) (code int, answer io.ReadCloser) {
	t.Helper()
	client, err := rest.HTTPClientFor(to)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	base, _, err := rest.DefaultServerUrlFor(to)
	if err != nil {
		t.Fatalf("default server url for: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(base.String(), "/")+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Accept", kubectlTable)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("send a request: %v", err)
	}
	return resp.StatusCode, resp.Body
}

// must is request that succeeds.
func must(t testing.TB, to *rest.Config, method, path string, body string) string {
	t.Helper()
	code, answer := request(t, to, method, path, body)
	if code >= http.StatusBadRequest {
		t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

// shownAge is a cell with the age of something that a test has made.
var shownAge = regexp.MustCompile(`"(\d+[hms])+"`)

// aged is an answer without the ages in it.
func aged(answer string) string { return shownAge.ReplaceAllString(answer, `"…s"`) }

const gizmos = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
	`"metadata":{"name":"gizmos.example.com"},` +
	`"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gizmos","singular":"gizmo","kind":"Gizmo",` +
	`"listKind":"GizmoList"},` +
	`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",` +
	`"x-kubernetes-preserve-unknown-fields":true}},` +
	`"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"},{"name":"Made","type":"date","jsonPath":".metadata.creationTimestamp"}]}]}}`

// define makes the custom resource gizmos with an object.
func define(t testing.TB, upstream *rest.Config) {
	t.Helper()
	must(t, upstream, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gizmos)
	eventually(t, func() string {
		code, answer := request(t, upstream, http.MethodPost, "/apis/example.com/v1/namespaces/default/gizmos",
			`{"apiVersion":"example.com/v1","kind":"Gizmo","metadata":{"name":"g"},"spec":{"size":7,"color":"red"}}`)
		if code == http.StatusCreated {
			return ""
		}
		return answer
	})
}

// knows waits until a relay knows a resource.
func (s *tested) knows(t testing.TB, path string) {
	t.Helper()
	eventually(t, func() string {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		if _, served := s.relay.Reading(req); !served {
			return path + " is not mirrored"
		}
		return ""
	})
}

// manyKinds makes objects whose rows say something.
func manyKinds(t testing.TB, upstream *rest.Config) (paths []string) {
	t.Helper()
	for _, made := range []struct{ path, object string }{
		{"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"},"data":{"a":"1","b":"2"}}`},
		{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"/api/v1/namespaces/default/services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`},
		{
			"/apis/apps/v1/namespaces/default/deployments",
			`{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		},
		{
			"/apis/storage.k8s.io/v1/storageclasses",
			`{"metadata":{"name":"fast","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"x"}`,
		},
		{
			"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
			`{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`,
		},
	} {
		must(t, upstream, http.MethodPost, made.path, made.object)
		paths = append(paths, made.path)
	}
	pod := `{"status":{"phase":"Succeeded","containerStatuses":[{"name":"c","image":"i","imageID":"","restartCount":2,` +
		`"ready":false,"state":{"terminated":{"exitCode":3}}}]}}`
	must(t, upstream, http.MethodPatch, "/api/v1/namespaces/default/pods/p/status", pod)
	return append(paths, "/api/v1/namespaces/default/serviceaccounts", "/apis/batch/v1/jobs")
}

func TestTablesAreServedAsUpstreamShowsThem(t *testing.T) {
	upstream := gaplesstest.New(t)
	paths := manyKinds(t, upstream.RESTConfig())
	define(t, upstream.RESTConfig())
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	s.knows(t, "/apis/example.com/v1/gizmos")
	for _, path := range append(paths, "/apis/example.com/v1/gizmos") {
		for _, query := range []string{
			"", "?includeObject=None", "?includeObject=Object", "?includeObject=Metadata&limit=1", "?resourceVersion=0",
		} {
			before := s.passed.Load()
			_, want := request(t, upstream.RESTConfig(), http.MethodGet, path+query, "")
			_, got := request(t, s.config(), http.MethodGet, path+query, "")
			if query == "?resourceVersion=0" && s.passed.Load() != before {
				t.Errorf("%s%s was passed on", path, query)
			}
			if diff := cmp.Diff(withoutVersion(t, want), withoutVersion(t, got)); diff != "" {
				t.Errorf("%s%s (-upstream +relay):\n%s", path, query, diff)
			}
		}
	}
}

// withoutVersion is a table without ages, and without the resourceVersion of the list: the relay's can be that of
// the last change.
func withoutVersion(t testing.TB, answer string) any {
	t.Helper()
	var decoded map[string]any
	if err := json.Unmarshal([]byte(aged(answer)), &decoded); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	if meta, is := decoded["metadata"].(map[string]any); is {
		delete(meta, "resourceVersion")
	}
	return decoded
}

// lines reads lines of a stream.
func lines(stream io.Reader) <-chan string {
	all := make(chan string, 100)
	go func() { // it ends with the stream
		defer close(all)
		in := bufio.NewReader(stream)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			all <- line
		}
	}()
	return all
}

// next returns the next line, "" at the end.
func next(t testing.TB, from <-chan string) string {
	t.Helper()
	select {
	case line := <-from:
		return line
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
	return ""
}

func TestWatchesOfTablesOutliveAnOutage(t *testing.T) {
	upstream := gaplesstest.New(t)
	define(t, upstream.RESTConfig())
	direct := clientset(t, upstream.RESTConfig())
	put(t, direct, "a", "1")
	front := newAltered(t, upstream.RESTConfig())
	s := openRelay(t, front.config, "", func(c *relay.Config) { c.Resources = []string{"configmaps"} })
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/apis/example.com/v1/namespaces/default/gizmos"} {
		s.knows(t, path)
		must(t, s.config(), http.MethodGet, path, "") // it is mirrored
	}
	var through, straight [2]<-chan string
	for i, path := range []string{"/api/v1/namespaces/default/configmaps", "/apis/example.com/v1/namespaces/default/gizmos"} {
		query := "?watch=1&resourceVersion=0&includeObject=None"
		_, relayed := openTable(t, s.config(), http.MethodGet, path+query, "")
		defer func() { _ = relayed.Close() }()
		_, own := openTable(t, upstream.RESTConfig(), http.MethodGet, path+query, "")
		defer func() { _ = own.Close() }()
		through[i], straight[i] = lines(relayed), lines(own)
		if got, want := aged(next(t, through[i])), aged(next(t, straight[i])); got != want ||
			!strings.Contains(got, `"columnDefinitions":[`) {
			t.Errorf("the first event is %s, want %s", got, want)
		}
	}
	front.refuse(true)
	put(t, direct, "a", "2")
	must(t, upstream.RESTConfig(), http.MethodPatch, "/apis/example.com/v1/namespaces/default/gizmos/g", `{"spec":{"size":8}}`)
	front.refuse(false)
	for i := range through {
		if got, want := aged(next(t, through[i])), aged(next(t, straight[i])); got != want ||
			!strings.Contains(got, `"columnDefinitions":null`) {
			t.Errorf("after the outage: %s, want %s", got, want)
		}
	}
}

// TestAWatchOfATableGoesOnAtARelayThatIsStartedAgain: upstream has forgotten what happened meanwhile, and
// sees one request for a row.
func TestAWatchOfATableGoesOnAtARelayThatIsStartedAgain(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	front, dir := newAltered(t, upstream.RESTConfig()), t.TempDir()
	configMaps := func(c *relay.Config) { c.Resources = []string{"configmaps"} }
	const path = "/api/v1/namespaces/default/configmaps"
	s := openRelay(t, front.config, dir, configMaps)
	var list struct {
		Metadata struct{ ResourceVersion string }
		Rows     []struct{ Cells []any }
	}
	if err := json.Unmarshal([]byte(must(t, s.config(), http.MethodGet, path+"?resourceVersion=0", "")), &list); err != nil ||
		len(list.Rows) != 1 {
		t.Fatalf("the table is %+v, %v", list, err)
	}
	put(t, direct, "b", "1")
	put(t, direct, "c", "1")
	eventually(t, func() string {
		shown := must(t, s.config(), http.MethodGet, path+"?resourceVersion=0", "")
		if strings.Contains(shown, `"c",1`) {
			return ""
		}
		return shown
	})
	s.stop()
	remove(t, direct, "b")
	upstream.Compact(t)
	again := openRelay(t, front.config, dir, configMaps)
	_, watch := openTable(t, again.config(), http.MethodGet, path+"?watch=1&resourceVersion="+list.Metadata.ResourceVersion, "")
	defer func() { _ = watch.Close() }()
	events := lines(watch)
	for _, want := range []string{
		`{"type":"ADDED".*"cells":["b",1,`, `{"type":"ADDED".*"cells":["c",1,`, `{"type":"DELETED".*"cells":["b",1,`,
	} {
		if got := next(t, events); !regexp.MustCompile(strings.ReplaceAll(want, "[", `\[`)).MatchString(got) {
			t.Errorf("the event is %s, want %s", got, want)
		}
	}
	if asked := front.asked(); again.passed.Load() != 0 || len(asked) != 2 { // one of each relay
		t.Errorf("%d requests were passed on, and %q asked for tables", again.passed.Load(), asked)
	}
}

func TestUpstreamIsAskedOnceForTheTableOfAResource(t *testing.T) {
	upstream := gaplesstest.New(t)
	manyKinds(t, upstream.RESTConfig())
	define(t, upstream.RESTConfig())
	front := newAltered(t, upstream.RESTConfig())
	s := openRelay(t, front.config, "", nil)
	s.knows(t, "/apis/example.com/v1/gizmos")
	var all sync.WaitGroup
	for range 20 {
		for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/apis/example.com/v1/gizmos?resourceVersion=0"} {
			all.Go(func() {
				if code, answer := request(t, s.config(), http.MethodGet, path, ""); code != http.StatusOK {
					t.Errorf("%s: %d %s", path, code, answer)
				}
			})
		}
	}
	all.Wait()
	// A definition whose columns stay is not another one.
	must(t, upstream.RESTConfig(), http.MethodPatch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gizmos.example.com",
		`{"metadata":{"labels":{"a":"b"}}}`)
	must(t, s.config(), http.MethodGet, "/apis/example.com/v1/gizmos", "")
	want := map[string]int{
		"/api/v1/pods?includeObject=Object&limit=1": 1, "/apis/example.com/v1/gizmos?includeObject=Object&limit=1": 1,
	}
	got := map[string]int{}
	for _, uri := range front.asked() {
		got[uri]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests for tables (-want +got):\n%s", diff)
	}
}

func TestTablesThatAreNotOursArePassedOn(t *testing.T) {
	upstream := gaplesstest.New(t)
	manyKinds(t, upstream.RESTConfig())
	replace := func(old, by string) func(string, []byte) []byte {
		return func(_ string, body []byte) []byte { return bytes.ReplaceAll(body, []byte(old), []byte(by)) }
	}
	for name, tt := range map[string]struct {
		path   string
		change func(string, []byte) []byte
		served bool
	}{
		"the same":       {"/api/v1/configmaps", replace("nothing", "something"), true},
		"another column": {"/api/v1/configmaps", replace(`"name":"Data"`, `"name":"Content"`), false},
		"another description": {
			"/api/v1/configmaps", replace(`"description":"Name must be unique`, `"description":"Names are unique`), false,
		},
		"another cell": {"/api/v1/pods", replace(`"ExitCode:3"`, `"Completed"`), false},
		"another age": {
			"/api/v1/configmaps", func(_ string, body []byte) []byte { return shownAge.ReplaceAll(body, []byte(`"3h"`)) }, false,
		},
		"more cells": {"/api/v1/configmaps", replace(`{"cells":[`, `{"cells":["x",`), false},
		"no conditions": {
			"/api/v1/pods", replace(`"conditions":[{"type":"Completed"`, `"conditions":[{"type":"Done"`), false,
		},
		"no table":              {"/api/v1/configmaps", replace(`"kind":"Table"`, `"kind":"Thing"`), false},
		"nothing":               {"/api/v1/configmaps", replace(`{`, ``), false},
		"an older version":      {"/api/v1/configmaps", replace(`"minor":"37`, `"minor":"33+`), true},
		"one before cells":      {"/api/v1/pods", replace(`"minor":"37`, `"minor":"34`), false},
		"one after cells":       {"/api/v1/pods", replace(`"minor":"37`, `"minor":"35`), true},
		"one that is too old":   {"/api/v1/configmaps", replace(`"minor":"37`, `"minor":"32`), false},
		"one that is not known": {"/api/v1/configmaps", replace(`"minor":"37`, `"minor":"38`), false},
		"none":                  {"/api/v1/configmaps", replace(`"minor":"37`, `"minor":"x`), false},
	} {
		t.Run(name, func(t *testing.T) {
			front := newAltered(t, upstream.RESTConfig())
			front.set(tt.change)
			s := openRelay(t, front.config, "", nil)
			for range 3 {
				code, answer := request(t, s.config(), http.MethodGet, tt.path, "")
				if code != http.StatusOK && code != http.StatusNotImplemented || (code == http.StatusOK) != tt.served {
					t.Errorf("%d %s", code, answer)
				}
			}
			if n := len(front.asked()); n > 1 {
				t.Errorf("upstream was asked for %d tables", n)
			}
		})
	}
}
