package table_test

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/relay/table"
	"github.com/gapless-io/gapless/internal/wire"
)

// answering returns an Asker of a server that gives one answer, and the requests that come.
func answering(t *testing.T, code int, body string) (*table.Asker, *[]string) {
	t.Helper()
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(web.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	a, err := table.NewAsker(&rest.Config{Host: web.URL + "/prefix", Transport: transport, UserAgent: "test"})
	if err != nil {
		t.Fatalf("make a asker: %v", err)
	}
	return a, &asked
}

func TestOneRowIsAskedFor(t *testing.T) {
	a, asked := answering(t, http.StatusOK,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a",12345678901234567890],"object":{"x":1}}]}`)
	for gvr, want := range map[kinds.GroupVersionResource]string{
		{Version: "v1", Resource: "pods"}: "/prefix/api/v1/pods?includeObject=Object&limit=1",
		{
			Group: "apps", Version: "v1", Resource: "deployments",
		}: "/prefix/apis/apps/v1/deployments?includeObject=Object&limit=1",
		{
			Group: "example.com", Version: "v1beta1", Resource: "widgets",
		}: "/prefix/apis/example.com/v1beta1/widgets?includeObject=Object&limit=1",
	} {
		s, err := a.Ask(t.Context(), gvr)
		if err != nil {
			t.Fatalf("ask: %v", err)
		}
		if got := (*asked)[len(*asked)-1]; got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
		if len(s.Columns) != 1 || len(s.Rows) != 1 || s.Rows[0].Cells[1] != json.Number("12345678901234567890") ||
			string(s.Rows[0].Object) != `{"x":1}` {
			t.Errorf("the sample is %+v", s)
		}
	}
}

func TestWhatIsNoTableIsAnError(t *testing.T) {
	for body, code := range map[string]int{
		`{"kind":"PodList","apiVersion":"v1"}`:           http.StatusOK,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v2"}`: http.StatusOK,
		`{"kind":"Table"`: http.StatusOK,
		`{"kind":"Table","apiVersion":"meta.k8s.io/v1"}`:    http.StatusForbidden,
		`"` + strings.Repeat("x", 9<<20) + `"`:              http.StatusOK,
		`{"kind":"Status","apiVersion":"v1","code":"what"}`: http.StatusInternalServerError,
	} {
		a, _ := answering(t, code, body)
		s, err := a.Ask(t.Context(), kinds.GroupVersionResource{Version: "v1", Resource: "pods"})
		if err == nil {
			t.Errorf("%.60s is the sample %+v", body, s)
		}
		if refused, is := errors.AsType[*table.RefusedError](err); is != (code != http.StatusOK) || is && refused.Code != code {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

func TestVersionsAreNumbers(t *testing.T) {
	for body, want := range map[string]table.Version{
		`{"major":"1","minor":"37","gitVersion":"v1.37.2"}`:            {Git: "v1.37.2", Major: 1, Minor: 37},
		`{"major":"1","minor":"33+","gitVersion":"v1.33.1-eks-1"}`:     {Git: "v1.33.1-eks-1", Major: 1, Minor: 33},
		`{"major":"","minor":"","gitVersion":"v0.0.0-master+$Format"}`: {Git: "v0.0.0-master+$Format"},
		`{"gitVersion":"v1.37.2"}`:                                     {Git: "v1.37.2"},
	} {
		a, _ := answering(t, http.StatusOK, body)
		if got, err := a.Version(t.Context()); err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", body, got, err, want)
		}
	}
}

// sampled is upstream's table of a ConfigMap that was made an hour ago, and the resource.
func sampled(t *testing.T) (*table.Sample, *kinds.Resource) {
	t.Helper()
	r, _ := builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	now := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	return &table.Sample{Columns: r.Columns, From: now, To: now.Add(time.Second), Rows: []table.Row{{
		Cells: []any{"a", json.Number("1"), "119s"},
		Object: json.RawMessage(
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":"2026-11-25T09:58:01Z"},"data":{"x":"y"}}`),
	}}}, r
}

func TestATableThatIsOursIsTheSame(t *testing.T) {
	s, r := sampled(t)
	for _, age := range []string{"117s", "119s", "2m", "2m1s"} { // the clocks differ by up to 2 s
		s.Rows[0].Cells[2] = age
		if err := s.Compare(r); err != nil {
			t.Errorf("%s: %v", age, err)
		}
	}
	s.Rows = nil
	if err := s.Compare(r); err != nil {
		t.Errorf("without objects: %v", err)
	}
}

func TestATableThatIsNotOursDiffers(t *testing.T) {
	for name, change := range map[string]func(s *table.Sample, r *kinds.Resource){
		"a younger object":     func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells[2] = "116s" },
		"an older object":      func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells[2] = "2m3s" },
		"an age as a number":   func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells[2] = json.Number("119") },
		"another number":       func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells[1] = json.Number("2") },
		"a number as text":     func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells[1] = "1" },
		"nothing in its place": func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells[1] = nil },
		"fewer cells":          func(s *table.Sample, _ *kinds.Resource) { s.Rows[0].Cells = s.Rows[0].Cells[:2] },
		"a condition": func(s *table.Sample, _ *kinds.Resource) {
			s.Rows[0].Conditions = []metav1.TableRowCondition{{Type: "Completed"}}
		},
		"a second row": func(s *table.Sample, _ *kinds.Resource) {
			s.Rows = append(s.Rows, table.Row{Cells: []any{"b", json.Number("2"), "119s"}, Object: s.Rows[0].Object})
		},
		"fewer columns": func(s *table.Sample, _ *kinds.Resource) { s.Columns = s.Columns[:2] },
		"another order": func(_ *table.Sample, r *kinds.Resource) {
			r.Columns = []metav1.TableColumnDefinition{r.Columns[1], r.Columns[0], r.Columns[2]}
		},
		"a row that depends on others": func(_ *table.Sample, r *kinds.Resource) {
			r.ListRow = func(iter.Seq2[*wire.Object, error]) func(*wire.Object) []any {
				return func(*wire.Object) []any { return []any{"a", int64(9), kinds.Age(time.Time{})} }
			}
		},
	} {
		s, own := sampled(t)
		r := *own
		change(s, &r)
		if _, is := errors.AsType[*table.DifferentError](s.Compare(&r)); !is {
			t.Errorf("%s is not noticed", name)
		}
	}
}
