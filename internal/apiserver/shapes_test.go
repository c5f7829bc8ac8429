package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	acceptPartial  = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptPartials = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// kube-rs's patch_metadata asks for PartialObjectMetadata, controller-runtime's metadata
// client too.
func TestWritesAnswerInTheNegotiatedForm(t *testing.T) {
	const (
		maps      = "/api/v1/namespaces/default/configmaps"
		pods      = "/api/v1/namespaces/default/pods"
		apps      = "/apis/apps/v1/namespaces/default/deployments"
		cm        = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}`
		pod       = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
		merge     = "application/merge-patch+json"
		strategic = "application/strategic-merge-patch+json"
		jsonPatch = "application/json-patch+json"
		scale     = `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d"},"spec":{"replicas":3}}`
		deploy    = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},` +
			`"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	)
	for accept, shape := range map[string]string{acceptPartial: "PartialObjectMetadata", acceptTable: "Table"} {
		d := openServer(t, nil)
		for _, c := range []struct {
			method, path, body, header string
			code                       int
			name                       string // of the object; "": a Status
		}{
			{"POST", maps + "?dryRun=All", cm, "", http.StatusCreated, "a"},
			{"POST", maps, cm, "", http.StatusCreated, "a"},
			{"PUT", maps + "/a", cm, "", http.StatusOK, "a"},
			{"PATCH", maps + "/a", `{"data":{"k":"w"}}`, merge, http.StatusOK, "a"},
			{"PATCH", maps + "/a", `{"data":{"k":"w"}}`, strategic, http.StatusOK, "a"},
			{"PATCH", maps + "/a", `[{"op":"add","path":"/data/j","value":"1"}]`, jsonPatch, http.StatusOK, "a"},
			{"DELETE", maps + "/a", "", "", http.StatusOK, ""},
			{"POST", pods, pod, "", http.StatusCreated, "p"},
			{"PATCH", pods + "/p/status", `{"status":{"phase":"Running"}}`, merge, http.StatusOK, "p"},
			{"DELETE", pods + "/p", "", "", http.StatusOK, "p"},
			{"POST", apps, deploy, "", http.StatusCreated, "d"},
			{"PUT", apps + "/d/scale", scale, "", http.StatusOK, "d"},
			{"PATCH", apps + "/d/scale", `{"spec":{"replicas":4}}`, merge, http.StatusOK, "d"},
			{"GET", apps + "/d/scale", "", "", http.StatusOK, "d"},
		} {
			a := d.do(c.method, c.path, c.body, accept, "Content-Type: "+c.header)
			got, want := tree(t, a.body), shape
			if c.name == "" {
				want = "Status"
			}
			if a.StatusCode != c.code || got["kind"] != want {
				t.Errorf("%s %s as %s: %d %s", c.method, c.path, want, a.StatusCode, a.body)
				continue
			}
			switch want {
			case "PartialObjectMetadata":
				if len(got) != 3 || got["apiVersion"] != "meta.k8s.io/v1" || at(got, "metadata", "name") != c.name {
					t.Errorf("%s %s: %s, want the metadata of %s", c.method, c.path, a.body, c.name)
				}
			case "Table":
				table := tableOf(t, []byte(a.body))
				if len(table.Rows) != 1 || table.Rows[0].Cells[0] != c.name ||
					len(table.ColumnDefinitions) != len(table.Rows[0].Cells) {
					t.Errorf("%s %s: %s, want a row for %s", c.method, c.path, a.body, c.name)
				}
			}
		}
	}
}

func TestDeleteCollectionAnswersInTheNegotiatedForm(t *testing.T) {
	for accept, want := range map[string]string{
		acceptPartials: "PartialObjectMetadataList", acceptTable: "Table", acceptJSON: "ConfigMapList",
	} {
		d := openServer(t, nil)
		d.create("a", "")
		if a := d.do("DELETE", configMaps, "", accept); a.StatusCode != http.StatusOK || tree(t, a.body)["kind"] != want {
			t.Errorf("%s: %d %s", accept, a.StatusCode, a.body)
		}
	}
}

// Upstream writes first and says then that it has no such form (406, or 400 for a bad
// includeObject).
func TestWriteWithAnUnknownFormWritesNothing(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	before := d.do("GET", configMaps, "").body
	for _, c := range []struct {
		method, path, accept string
		code                 int
	}{
		{"PATCH", configMaps + "/a", acceptPartials, http.StatusNotAcceptable},
		{"PATCH", configMaps + "/a", "Accept: application/json;as=Chair;g=meta.k8s.io;v=v1", http.StatusNotAcceptable},
		{"PATCH", configMaps + "/a?includeObject=Bogus", acceptTable, http.StatusBadRequest},
		{"DELETE", configMaps, acceptPartial, http.StatusNotAcceptable},
		{"DELETE", configMaps + "?includeObject=Bogus", acceptTable, http.StatusBadRequest},
	} {
		body := ""
		if c.method == "PATCH" {
			body = `{"data":{"k":"w"}}`
		}
		if a := d.do(c.method, c.path, body, c.accept, "Content-Type: application/merge-patch+json"); a.StatusCode != c.code {
			t.Errorf("%s %s with %s: %d %s", c.method, c.path, c.accept, a.StatusCode, a.body)
		}
	}
	if after := d.do("GET", configMaps, "").body; after != before {
		t.Errorf("changed\n%s to\n%s", before, after)
	}
}

func TestTableOfAScaleHasScaleColumns(t *testing.T) {
	const path = "/apis/apps/v1/namespaces/default/deployments"
	d := openServer(t, nil)
	d.do("POST", path,
		`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	table := tableOf(t, []byte(d.do("GET", path+"/d/scale", "", acceptTable).body))
	if diff := cmp.Diff([]string{"Name", "Desired", "Available", "Age"}, columnNames(table)); diff != "" {
		t.Error(diff)
	}
	if cells := table.Rows[0].Cells; len(cells) != 4 || cells[0] != "d" || cells[1] != float64(3) || cells[2] != float64(0) {
		t.Errorf("cells %v", cells)
	}
}
