package load

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gapless-io/gapless/conformance/crash/record"
)

// The resources that are written. Widgets are custom ones.
const (
	configMaps = "configmaps"
	secrets    = "secrets"
	widgets    = "widgets"
	group      = "crash.gapless.io"
	// linearSpace is the namespace of the objects of the linearizability check.
	linearSpace = "linear"
)

// definitions is the URL path of the collection of definitions.
const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.crash.gapless.io"},
"spec":{"group":"crash.gapless.io","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"id":{"type":"string"},"pad":{"type":"string"}}}}}}}]}}`

// pathOf is the URL path of a scope's collection.
func pathOf(s record.Scope) string {
	at := "/api/v1"
	if s.Resource == widgets {
		at = "/apis/" + group + "/v1"
	}
	if s.Namespace != "" {
		at += "/namespaces/" + s.Namespace
	}
	return at + "/" + s.Resource
}

func scopeOf(k record.Key) record.Scope {
	return record.Scope{Resource: k.Resource, Namespace: k.Namespace}
}

// body is what an attempt sends.
func body(a *record.Attempt) []byte {
	if a.Kind.Deletes() {
		if a.Kind == record.Delete {
			return nil
		}
		return encode(map[string]any{"preconditions": map[string]string{"resourceVersion": strconv.FormatInt(a.If, 10)}})
	}
	content := map[string]string{"id": strconv.FormatInt(a.ID, 10), "pad": a.Content()}
	object := map[string]any{}
	switch a.Key.Resource {
	case configMaps:
		object["apiVersion"], object["kind"], object["data"] = "v1", "ConfigMap", content
	case secrets:
		for name, value := range content {
			content[name] = base64.StdEncoding.EncodeToString([]byte(value))
		}
		object["apiVersion"], object["kind"], object["data"] = "v1", "Secret", content
	case widgets:
		object["apiVersion"], object["kind"], object["spec"] = group+"/v1", "Widget", content
	}
	meta := map[string]string{"name": a.Key.Name, "namespace": a.Key.Namespace}
	if a.Kind == record.Update {
		meta["resourceVersion"] = strconv.FormatInt(a.If, 10)
	}
	if a.Kind != record.Patch {
		object["metadata"] = meta
	}
	return encode(object)
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("maps of strings do not encode: %v", err))
	}
	return raw
}

// methodOf is how an attempt is sent, and where.
func methodOf(a *record.Attempt) (method, path string) {
	path = pathOf(scopeOf(a.Key))
	switch a.Kind {
	case record.Create:
		return http.MethodPost, path
	case record.Patch:
		method = http.MethodPatch
	case record.Delete, record.DeleteIf:
		method = http.MethodDelete
	case record.Update, record.Replace:
		method = http.MethodPut
	}
	return method, path + "/" + a.Key.Name
}

// wire is an object, a list or a Status, as far as it matters here.
type wire struct {
	Metadata struct {
		Name, Namespace, UID, ResourceVersion, Continue string
		Annotations                                     map[string]string
	}
	Data    map[string]string
	Spec    map[string]string
	Items   []wire
	Code    int
	Reason  string
	Message string
}

func (w wire) rv() int64 {
	rv, _ := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64) // what is no number is none that was given
	return rv
}

// version reads what an object shows. What is not ours has attempt 0.
func (w wire) version(resource string) record.Version {
	content := w.Data
	if resource == widgets {
		content = w.Spec
	}
	id, pad := content["id"], content["pad"]
	if resource == secrets {
		id, pad = plain(id), plain(pad)
	}
	n, _ := strconv.ParseInt(id, 10, 64) // what is no number is not ours
	return record.Version{
		Key: record.Key{Resource: resource, Namespace: w.Metadata.Namespace, Name: w.Metadata.Name},
		RV:  w.rv(), UID: w.Metadata.UID, ID: n, Pad: pad,
	}
}

func plain(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(raw)
}

func (w wire) versions(resource string) []record.Version {
	all := make([]record.Version, len(w.Items))
	for i, item := range w.Items {
		all[i] = item.version(resource)
	}
	return all
}
