package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	bars      = "/apis/t.example.com/v1/namespaces/default/bars"
	barsV2    = "/apis/t.example.com/v2/namespaces/default/bars"
	barSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{"payload":{"type":"string"}%s}}}}`
)

// defineBars creates a definition of bars, of which v1 is stored and has the field spec.c, and
// v2 has not. The conversion is a member of the definition's spec.
func (d *testServer) defineBars(conversion string) {
	d.t.Helper()
	body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bars.t.example.com"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"bars","kind":"Bar"},"conversion":` + conversion +
		`,"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + fmt.Sprintf(barSchema,
		`,"c":{"type":"string"},"d":{"type":"string"}`) + `}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":` + fmt.Sprintf(barSchema, "") + `},
"additionalPrinterColumns":[{"name":"C","type":"string","jsonPath":".spec.c"}]}]}}`
	if a := d.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body); a.StatusCode != http.StatusCreated {
		d.t.Fatal(a.body)
	}
}

// fillBars creates so many objects that lists of them are made of blocks.
func (d *testServer) fillBars() {
	d.t.Helper()
	for i := range 300 {
		body := fmt.Sprintf(
			`{"apiVersion":"t.example.com/v1","kind":"Bar","metadata":{"name":"b-%03d"},"spec":{"c":"seen","payload":"%s"}}`,
			i, strings.Repeat("x", 500))
		if a := d.do("POST", bars, body); a.StatusCode != http.StatusCreated {
			d.t.Fatal(a.body)
		}
	}
}

// redefineBars patches the definition with a JSON patch.
func (d *testServer) redefineBars(patch string) {
	d.t.Helper()
	a := d.do("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bars.t.example.com", patch,
		"Content-Type: application/json-patch+json")
	if a.StatusCode != http.StatusOK {
		d.t.Fatal(a.body)
	}
}

// The versions have different schemas, so what v2 shows of an object depends on v2's schema,
// and the object's resourceVersion stays the same when the schema changes.
func TestListsOfConvertedObjectsFollowTheSchema(t *testing.T) {
	d := openServer(t, nil)
	d.defineBars(`{"strategy":"None"}`)
	d.fillBars()
	const field = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/c"
	for _, c := range []struct{ form, shown string }{
		{"Accept: application/json", `"c":"seen"`},
		{acceptTable, `"cells":["b-000","seen"]`},
		{"Accept: application/json;as=Table;g=meta.k8s.io;v=v1" + drops, `"cells":["b-000","seen"]`},
	} {
		for _, has := range []bool{false, true, false} {
			if has {
				d.redefineBars(`[{"op":"add","path":"` + field + `","value":{"type":"string"}}]`)
			}
			for again := range 2 {
				body := string(d.do("GET", barsV2, "", c.form, "Accept-Encoding: gzip").plain(t))
				if strings.Contains(body, c.shown) != has || !strings.Contains(body, "b-299") {
					t.Fatalf("%s, list %d: the field is not as the schema says (it has it: %v): %.1000s",
						c.form, again, has, body)
				}
			}
			if has {
				d.redefineBars(`[{"op":"remove","path":"` + field + `"}]`)
			}
		}
	}
}

// A webhook may change labels, which lists of metadata show.
func TestMetadataListsOfConvertedObjectsFollowTheWebhook(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	hook := httptest.NewTLSServer(http.HandlerFunc(labelBars))
	t.Cleanup(hook.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: hook.Certificate().Raw,
	}))
	d := openServer(t, nil)
	d.defineBars(
		`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"` + hook.URL +
			`/one","caBundle":"` + bundle + `"}}}`)
	d.fillBars()
	for _, accept := range []string{protobufType + partialsParams, "application/json" + partialsParams, "application/json"} {
		for _, encoding := range []string{"", "Accept-Encoding: gzip"} {
			for _, at := range []string{"one", "two"} {
				d.redefineBars(
					`[{"op":"replace","path":"/spec/conversion/webhook/clientConfig/url","value":"` + hook.URL + "/" + at + `"}]`)
				for again := range 2 {
					body := string(d.do("GET", barsV2, "", "Accept: "+accept, encoding).plain(t))
					if n := strings.Count(body, "label-"+at); n != 300 || strings.Count(body, "label-") != n {
						t.Fatalf("%s %s, list %d of webhook %s: %d of 300 have its label: %.2000q",
							accept, encoding, again, at, n, body)
					}
				}
			}
		}
	}
}

// A watch delivers what was converted, and ends with an ERROR frame when a conversion fails;
// reads are 500, writes and reads in the stored version go on.
func TestWatchEndsWithAnErrorWhenAConversionFails(t *testing.T) {
	var down atomic.Bool
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "no database", http.StatusServiceUnavailable)
			return
		}
		labelBars(w, r)
	}))
	t.Cleanup(hook.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: hook.Certificate().Raw,
	}))
	d := openServer(t, nil)
	d.defineBars(
		`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"` + hook.URL +
			`/one","caBundle":"` + bundle + `"}}}`)
	create := func(name string) {
		t.Helper()
		if a := d.do("POST",
			bars,
			`{"apiVersion":"t.example.com/v1","kind":"Bar","metadata":{"name":"`+name+`"}}`); a.StatusCode != http.StatusCreated {
			t.Fatal(a.body)
		}
	}
	create("a")
	var open []*stream
	for _, client := range []*http.Client{d.h1, d.h2} {
		for _, accept := range []string{
			acceptJSON, acceptTable, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		} {
			s := d.open(client, barsV2+"?watch=1", accept)
			if e := s.next(); e["type"] != "ADDED" {
				t.Fatalf("%s: %v", accept, e)
			}
			open = append(open, s)
		}
	}
	down.Store(true)
	create("b")
	const why = `conversion webhook for t.example.com/v1, Kind=Bar failed: the server is currently unable to handle the request`
	for i, s := range open {
		e := s.next()
		message, _ := at(e, "object", "message").(string)
		if e["type"] != "ERROR" || at(e, "object", "code") != float64(500) || message != why {
			t.Errorf("watch %d: %v", i, e)
		}
		if s.lines.Scan() {
			t.Errorf("watch %d goes on: %s", i, s.lines.Text())
		}
	}
	if a := d.do("GET", barsV2+"/b", ""); a.StatusCode != http.StatusInternalServerError || !strings.Contains(a.body, why) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := d.do("GET", bars+"/b", ""); a.StatusCode != http.StatusOK {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	metrics := d.do("GET", "/metrics", "").body
	for _, want := range []string{
		`requests_total{result="success"} `, `requests_total{result="failed"} `, "duration_seconds_count ",
	} {
		if name := "\ngapless_conversion_webhook_" + want; !strings.Contains(metrics, name) ||
			strings.Contains(metrics, name+"0\n") {
			t.Errorf("no %s in the metrics", name)
		}
	}
	if !strings.Contains(metrics, "\ngapless_conversion_cached_objects 1\n") ||
		strings.Contains(metrics, "\ngapless_conversion_cached_bytes 0\n") {
		t.Error("the converted object is not kept")
	}
}

// labelBars is a webhook that labels each object with the path that it was called at.
func labelBars(w http.ResponseWriter, r *http.Request) {
	var in struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range in.Request.Objects {
		o["apiVersion"] = in.Request.DesiredAPIVersion
		if metadata, is := o["metadata"].(map[string]any); is {
			metadata["labels"] = map[string]any{"by": "label-" + path.Base(r.URL.Path)}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // the caller may have left
		"apiVersion": in.APIVersion, "kind": in.Kind,
		"response": map[string]any{
			"uid": in.Request.UID, "convertedObjects": in.Request.Objects, "result": map[string]any{"status": "Success"},
		},
	})
}
