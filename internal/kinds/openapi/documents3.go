package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Document3 names a document of version 3, by its path below /openapi/v3: "api/v1".
func Document3(r *kinds.Resource) string { return strings.TrimPrefix(basePath(r), "/") }

// basePath returns "/api/v1" or "/apis/group/version".
func basePath(r *kinds.Resource) string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}

// BuiltIn3 returns all that the document of a group and version has: resources are the built-in
// resources of that version.
func BuiltIn3(resources []*kinds.Resource) (Fragment, error) {
	paths, defs := object{}, newDefinitions(version3)
	for _, r := range resources {
		b := bodies{object: defs.addKind(r.GoType, r.GVK())}
		if slices.Contains(r.Verbs, "list") {
			b.list = b.object + "List"
			defs.addGo(reflect.TypeFor[metav1.ListMeta]())
			defs.addList(b.list, b.object, r)
		}
		defs.addPaths(paths, r, b)
	}
	of := resources[0]
	defs.addDiscovery(paths, basePath(of)+"/", discovery{
		answer: reflect.TypeFor[metav1.APIResourceList](),
		id:     "get" + name(of.Group, true) + joined(of.Version, true) + "APIResources",
		tag:    tag(of), description: "get available resources",
	})
	return JSON3.encode(paths, defs.schemas)
}

// Shared3 returns the definitions that the fragments of these custom resources refer to.
func Shared3(resources []*kinds.Resource) (Fragment, error) {
	defs := newDefinitions(version3)
	core := []kinds.GroupVersionKind{{Version: "v1"}}
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[metav1.ListMeta](), reflect.TypeFor[metav1.Patch](),
	} {
		defs.addGo(t)
	}
	defs.addKinds(reflect.TypeFor[metav1.Status](), core)
	defs.addKinds(reflect.TypeFor[metav1.DeleteOptions](), core)
	if slices.ContainsFunc(resources, func(r *kinds.Resource) bool { return r.Scale != nil }) {
		defs.addKinds(reflect.TypeFor[autoscalingv1.Scale](), []kinds.GroupVersionKind{scaleKind()})
	}
	return JSON3.encode(nil, defs.schemas)
}

// discovery is a path that says what there is.
type discovery struct {
	answer      reflect.Type
	id          string
	tag         string
	description string
}

// Discovery3 returns the document of a path that says what there is, by its name: "api", "apis",
// "version", or "apis/" and a group.
func Discovery3(document string) (Fragment, error) {
	group := strings.TrimPrefix(document, "apis/")
	of := discovery{
		answer: reflect.TypeFor[metav1.APIGroup](), id: "get" + name(group, true) + "APIGroup", tag: name(group, false),
		description: "get information of a group",
	}
	switch document {
	case "api":
		of = discovery{
			answer: reflect.TypeFor[metav1.APIVersions](), id: "getCoreAPIVersions", tag: "core",
			description: "get available API versions",
		}
	case "apis":
		of = discovery{
			answer: reflect.TypeFor[metav1.APIGroupList](), id: "getAPIVersions", tag: "apis",
			description: "get available API versions",
		}
	case "version":
		of = discovery{
			answer: reflect.TypeFor[version.Info](), id: "getCodeVersion", tag: "version",
			description: "get the version information for this server",
		}
	}
	paths, defs := object{}, newDefinitions(version3)
	defs.addDiscovery(paths, "/"+document+"/", of)
	return JSON3.encode(paths, defs.schemas)
}

func (d *definitions) addDiscovery(paths object, path string, of discovery) {
	types := []string{"application/json", "application/yaml"} // upstream's discovery has protobuf too
	if of.answer == reflect.TypeFor[version.Info]() {
		types = types[:1]
		d.addGo(of.answer)
	} else {
		d.addKinds(of.answer, []kinds.GroupVersionKind{{Version: "v1"}})
	}
	paths[path] = object{"get": object{
		"operationId": of.id, "tags": []string{of.tag}, "description": of.description,
		"responses": answers3(definitionName(of.answer), map[string]string{"200": "OK"}, types),
	}}
}

// Frame3 returns the frame of a document of version 3. Documents of custom resources have what
// upstream's separate builder says of them.
func Frame3(custom bool) (Frame, error) {
	info := object{"title": "Kubernetes", "version": "gapless"}
	end := "}}"
	if custom {
		info = object{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
	} else {
		end = `},"securitySchemes":{"BearerToken":{"type":"apiKey","name":"authorization","in":"header","description":"Bearer ` +
			`Token authentication"}}}`
	}
	text, err := json.Marshal(info)
	if err != nil {
		return Frame{}, fmt.Errorf("encode the head: %w", err)
	}
	return Frame{
		Begin:  fmt.Appendf(nil, `{"openapi":"3.0.0","info":%s,"paths":{`, text),
		Middle: []byte(`},"components":{"schemas":{`), End: []byte(end + "}"), Separator: []byte(","),
	}, nil
}
