package registry_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
)

// webhook is a real HTTPS server that converts bars: spec.n of v1, a number, is spec.count of
// v2, a text, and v2 has the label "shown".
type webhook struct {
	*httptest.Server
	t       testing.TB
	reviews atomic.Int64
	objects atomic.Int64
	// mu guards answer.
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request, body []byte) // nil: converts
}

// review is what the webhook reads and writes of a ConversionReview.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID               string           `json:"uid"`
		DesiredAPIVersion string           `json:"desiredAPIVersion"`
		Objects           []map[string]any `json:"objects"`
	} `json:"request,omitempty"`
	Response *answer `json:"response,omitempty"`
}

type answer struct {
	UID       string           `json:"uid"`
	Converted []map[string]any `json:"convertedObjects"`
	Result    map[string]any   `json:"result"`
}

func newWebhook(t testing.TB) *webhook {
	t.Helper()
	h := &webhook{t: t}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	return h
}

// instead replaces the conversion; nil converts again.
func (h *webhook) instead(answer func(w http.ResponseWriter, r *http.Request, body []byte)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has left
	}
	h.reviews.Add(1)
	h.mu.Lock()
	instead := h.answer
	h.mu.Unlock()
	if instead != nil {
		instead(w, r, body)
		return
	}
	h.convert(w, body)
}

// convert answers as it should.
func (h *webhook) convert(w http.ResponseWriter, body []byte) {
	out := h.converted(body)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the caller may have left
}

func (h *webhook) converted(body []byte) *review {
	in := review{}
	if err := json.Unmarshal(body, &in); err != nil || in.Request == nil {
		h.t.Errorf("a bad review: %s", body)
		return &review{}
	}
	done := &answer{UID: in.Request.UID, Result: map[string]any{"status": "Success"}}
	for _, o := range in.Request.Objects {
		h.objects.Add(1)
		convertBar(o, in.Request.DesiredAPIVersion)
		done.Converted = append(done.Converted, o)
	}
	return &review{APIVersion: in.APIVersion, Kind: in.Kind, Response: done}
}

func convertBar(o map[string]any, to string) {
	o["apiVersion"] = to
	spec, _ := o["spec"].(map[string]any)
	metadata, _ := o["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	switch to {
	case "t.example.com/v2":
		if n, is := spec["n"].(float64); is {
			delete(spec, "n")
			spec["count"] = strconv.Itoa(int(n))
		}
		if labels == nil {
			labels = map[string]any{}
		}
		if count, is := spec["count"].(string); is {
			labels["shown"] = count
			metadata["labels"] = labels
		}
	case "t.example.com/v1":
		if count, is := spec["count"].(string); is {
			delete(spec, "count")
			spec["n"], _ = strconv.Atoi(count)
		}
		delete(labels, "shown")
	}
}

// ca is the certificate of the webhook in PEM, as JSON has it.
func (h *webhook) ca() string {
	text, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	if err != nil {
		h.t.Fatalf("encode as JSON: %v", err)
	}
	return string(text)
}

const (
	bars   = "t.example.com/v1/bars"
	barsV2 = "t.example.com/v2/bars"
)

// barDefinition is the definition of bars, stored in v1 and converted by what config says.
func barDefinition(config string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bars.t.example.com"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"bars","kind":"Bar"},
"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1beta1"],"clientConfig":` + config + `}},
"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
"selectableFields":[{"jsonPath":".spec.n"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"},"a":{"type":"string"}}},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}}},
{"name":"v2","served":true,"storage":false,"subresources":{"status":{}},
"selectableFields":[{"jsonPath":".spec.count"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"count":{"type":"string"},"a":{"type":"string"}}},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}]}}`
}

func bar(version, name, spec string) string {
	return `{"apiVersion":"t.example.com/` + version + `","kind":"Bar","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// serveBars serves bars, which a webhook converts.
func serveBars(t *testing.T) (*server, *webhook) {
	t.Helper()
	h := newWebhook(t)
	s := serve(t)
	s.create(s.at(crds), barDefinition(`{"url":"`+h.URL+`/convert","caBundle":`+h.ca()+`}`))
	return s, h
}

// shows fails the test if an object has other content than want.
func shows(t testing.TB, o *wire.Object, want string) {
	t.Helper()
	spec, err := json.Marshal(field(t, o, "spec"))
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	if got := o.APIVersion() + " " + string(spec); got != want {
		t.Errorf("%s is %s, want %s", o.Key(), got, want)
	}
}
