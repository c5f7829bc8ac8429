package apiserver_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// tableOf decodes a table.
func tableOf(t testing.TB, body []byte) metav1.Table {
	t.Helper()
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return table
}

func columnNames(t metav1.Table) []string {
	var names []string
	for _, c := range t.ColumnDefinitions {
		names = append(names, c.Name)
	}
	return names
}

func TestTableRowsIncludeTheRequestedObject(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	d.create("b", "")
	for _, c := range []struct {
		query, kind string
		fields      []string
	}{
		{"", "PartialObjectMetadata", []string{"apiVersion", "kind", "metadata"}},
		{"?includeObject=Metadata", "PartialObjectMetadata", []string{"apiVersion", "kind", "metadata"}},
		{"?includeObject=Object", "ConfigMap", []string{"apiVersion", "data", "kind", "metadata"}},
		{"?includeObject=None", "", nil},
	} {
		for path, rows := range map[string]int{configMaps: 2, configMaps + "/a": 1} {
			table := tableOf(t, []byte(d.do("GET", path+c.query, "", acceptTable).body))
			if len(table.Rows) != rows || table.ResourceVersion == "" {
				t.Fatalf("%s%s: %d rows, resourceVersion %q", path, c.query, len(table.Rows), table.ResourceVersion)
			}
			if diff := cmp.Diff([]string{"Name", "Data", "Age"}, columnNames(table)); diff != "" {
				t.Error(diff)
			}
			row := table.Rows[0]
			if row.Cells[0] != "a" || row.Cells[1] != float64(1) || len(row.Cells) != len(table.ColumnDefinitions) {
				t.Errorf("cells %v", row.Cells)
			}
			if c.kind == "" {
				if string(row.Object.Raw) != "null" && len(row.Object.Raw) != 0 {
					t.Errorf("object %s, want none", row.Object.Raw)
				}
				continue
			}
			object := tree(t, string(row.Object.Raw))
			if object["kind"] != c.kind || at(object, "metadata", "name") != "a" ||
				at(object, "metadata", "resourceVersion") == nil {
				t.Errorf("%s: object %s", c.query, row.Object.Raw)
			}
			if len(object) != len(c.fields) {
				t.Errorf("%s: object %s, want only %v", c.query, row.Object.Raw, c.fields)
			}
		}
	}
	if a := d.do("GET", configMaps+"?includeObject=All", "", acceptTable); a.StatusCode != http.StatusBadRequest {
		t.Errorf("includeObject=All: %d %s", a.StatusCode, a.body)
	}
	if a := d.do("GET", configMaps+"?includeObject=All", "", acceptJSON); a.StatusCode != http.StatusOK {
		t.Errorf("includeObject is of tables: %d %s", a.StatusCode, a.body)
	}
}

func TestEmptyTableHasColumnsAndEmptyListHasItems(t *testing.T) {
	d := openServer(t, nil)
	table := d.do("GET", configMaps, "", acceptTable).body
	if got := tableOf(t, []byte(table)); len(got.ColumnDefinitions) != 3 || got.Rows == nil || len(got.Rows) != 0 {
		t.Errorf("table %s", table)
	}
	for _, accept := range []string{acceptJSON, "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
		if items, ok := tree(t, d.do("GET", configMaps, "", accept).body)["items"].([]any); !ok || len(items) != 0 {
			t.Errorf("%s: items %v", accept, items)
		}
	}
}

func TestWatchedTablesHaveColumnsInTheFirstEventOnly(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	d.create("b", "")
	s := d.open(d.h2, configMaps+"?watch=1&allowWatchBookmarks=1", acceptTable)
	for i, want := range []string{"ADDED", "ADDED", "BOOKMARK", "MODIFIED", "DELETED"} {
		switch want {
		case "MODIFIED":
			d.do("PATCH", configMaps+"/a", `{"data":{"b":"2"}}`, "Content-Type: application/merge-patch+json")
		case "DELETED":
			d.do("DELETE", configMaps+"/a", "")
		}
		if !s.lines.Scan() {
			t.Fatal(s.lines.Err())
		}
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal(s.lines.Bytes(), &e); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		table := tableOf(t, e.Object)
		if e.Type != want || table.Kind != "Table" || len(table.Rows) != 1 {
			t.Fatalf("event %d: %s, want %s", i, s.lines.Text(), want)
		}
		if first := i == 0; (len(table.ColumnDefinitions) > 0) != first {
			t.Errorf("event %d has %d columns", i, len(table.ColumnDefinitions))
		}
		row := tree(t, string(table.Rows[0].Object.Raw))
		annotated := at(row, "metadata", "annotations", metav1.InitialEventsAnnotationKey) == "true"
		if annotated != (want == "BOOKMARK") || at(row, "metadata", "resourceVersion") == nil {
			t.Errorf("event %d: row object %s", i, table.Rows[0].Object.Raw)
		}
	}
}

func TestWatchOfMetadataSendsOnlyMetadata(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", `"x":"1"`)
	s := d.open(d.h2, configMaps+"?watch=1&allowWatchBookmarks=1",
		"Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	for _, want := range []string{"ADDED", "BOOKMARK"} {
		e := s.next()
		object, _ := e["object"].(map[string]any)
		if e["type"] != want || object["kind"] != "PartialObjectMetadata" || object["apiVersion"] != "meta.k8s.io/v1" ||
			len(object) != 3 {
			t.Errorf("%v", e)
		}
	}
}

// A bookmark has no more than a resourceVersion, and other clients than kubectl
// write what they like: no kind's row may depend on anything.
func TestEveryKindHasARowForAnEmptyObject(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		for _, body := range []string{
			`{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() + `","metadata":{"resourceVersion":"7"}}`,
			`{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() +
				`","metadata":{"name":"a","resourceVersion":"7"},"spec":null,"status":null}`,
			`{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() +
				`","metadata":{"name":"a","resourceVersion":"7"},"spec":[],"status":"x","data":7,"rules":{},"subsets":1}`,
			`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"a","resourceVersion":"7"},"spec":{"replicas":1}}`,
		} {
			o, err := wire.ParseObject([]byte(body), r.Fields)
			if err != nil {
				t.Fatalf("%s: %v", r.GR(), err)
			}
			cells := r.Row(o)
			// The age of an IPAddress has no column, as upstream.
			if n := len(cells) - len(r.Columns); n != 0 && (n != 1 || r.Kind != "IPAddress") {
				t.Errorf("%s: %d cells for %d columns", r.GR(), len(cells), len(r.Columns))
			}
		}
	}
}

// Which class is the default depends on the other classes: only a list says it, as
// upstream (printers.go printStorageClassList).
func TestTableOfStorageClassesMarksTheDefaultInListsOnly(t *testing.T) {
	d := openServer(t, nil)
	const path = "/apis/storage.k8s.io/v1/storageclasses"
	for _, class := range []string{
		`"metadata":{"name":"a","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}`,
		`"metadata":{"name":"b"}`,
	} {
		if a := d.do("POST",
			path,
			`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","provisioner":"example.org/p",`+class+
				`}`); a.StatusCode != http.StatusCreated {
			t.Fatal(a.body)
		}
	}
	for from, want := range map[string][]any{path: {"a (default)", "b"}, path + "/a": {"a"}} {
		var got []any
		for _, row := range tableOf(t, []byte(d.do("GET", from, "", acceptTable).body)).Rows {
			got = append(got, row.Cells[0])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
	}
}

func TestTableRowOfAnEndedPodSaysThatItIsCompleted(t *testing.T) {
	d := openServer(t, nil)
	const path = "/api/v1/namespaces/default/pods"
	if a := d.do("POST",
		path,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},`+
			`"spec":{"containers":[{"name":"c","image":"i"}]}}`); a.StatusCode != http.StatusCreated {
		t.Fatal(a.body)
	}
	failed := []metav1.TableRowCondition{
		{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: "Failed", Message: "The pod failed."},
	}
	for _, c := range []struct {
		phase string
		want  []metav1.TableRowCondition
	}{{"Running", nil}, {"Failed", failed}} {
		if a := d.do("PATCH",
			path+"/a/status", `{"status":{"phase":"`+c.phase+`"}}`,
			"Content-Type: application/merge-patch+json"); a.StatusCode != http.StatusOK {
			t.Fatal(a.body)
		}
		for _, from := range []string{path, path + "/a"} {
			table := tableOf(t, []byte(d.do("GET", from, "", acceptTable).body))
			if diff := cmp.Diff(c.want, table.Rows[0].Conditions); diff != "" {
				t.Errorf("%s, %s: %s", from, c.phase, diff)
			}
		}
	}
}
