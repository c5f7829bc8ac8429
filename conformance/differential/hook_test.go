package differential_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"testing"
)

// hook is a webhook that converts: spec.size of v1, a number, is spec.length of v2, a text.
// The path says in which way it errs.
type hook struct{ *httptest.Server }

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{httptest.NewTLSServer(http.HandlerFunc(convert))}
	t.Cleanup(h.Close)
	return h
}

// ca is the certificate of the webhook as clientConfig.caBundle has it.
func (h *hook) ca() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
}

func convert(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if json.NewDecoder(r.Body).Decode(&review) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := map[string]any{"status": "Success"}
	objects := review.Request.Objects
	for _, o := range objects {
		rename(o, review.Request.DesiredAPIVersion)
		metadata, _ := o["metadata"].(map[string]any)
		switch path.Base(r.URL.Path) {
		case "name":
			metadata["name"] = "other"
		case "kind":
			o["kind"] = "Other"
		case "version":
			o["apiVersion"] = "example.com/v7"
		case "labels":
			metadata["labels"] = map[string]any{"a b": "c"}
		case "metadata":
			metadata["labels"] = map[string]any{"by": "hook"}
			metadata["generation"], metadata["finalizers"] = 77, []any{"example.com/x"}
		}
	}
	switch path.Base(r.URL.Path) {
	case "none":
		objects = nil
	case "uid":
		review.Request.UID = "x"
	case "refuse":
		result = map[string]any{"status": "Failure", "message": "it cannot be converted"}
	case "silent":
		result = map[string]any{"status": "Failure"}
	case "garbage":
		_, _ = w.Write([]byte("{garbage")) // the caller may have left
		return
	case "500":
		http.Error(w, "boom", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // the caller may have left
		"apiVersion": review.APIVersion, "kind": review.Kind,
		"response": map[string]any{"uid": review.Request.UID, "convertedObjects": objects, "result": result},
	})
}

// rename converts the spec of an object.
func rename(o map[string]any, to string) {
	o["apiVersion"] = to
	spec, _ := o["spec"].(map[string]any)
	if size, is := spec["size"].(float64); is && path.Base(to) == "v2" {
		delete(spec, "size")
		spec["length"] = strconv.Itoa(int(size))
	}
	if length, is := spec["length"].(string); is && path.Base(to) == "v1" {
		delete(spec, "length")
		spec["size"], _ = strconv.Atoi(length)
	}
}
