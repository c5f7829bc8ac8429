package builtin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Manifest is an object that upstream accepts.
type Manifest struct {
	Target Target // the collection
	Name   string // "" when it is generated
	Body   []byte // JSON
}

// minimal is the file with the manifests that have no more than they must.
const minimal = "minimal.yaml"

// Manifests reads those of a directory, for the resources of a catalog. The minimal ones
// are last.
func Manifests(dir string, resources []*kinds.Resource) ([]Manifest, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	last := filepath.Join(dir, minimal)
	if i := slices.Index(files, last); i >= 0 {
		files = append(slices.Delete(files, i, i+1), last)
	}
	var all []Manifest
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		for i, doc := range strings.Split(string(text), "\n---\n") {
			m, err := parseManifest(doc, resources)
			if err != nil {
				return nil, fmt.Errorf("%s, document %d: %w", file, i+1, err)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

func parseManifest(doc string, resources []*kinds.Resource) (Manifest, error) {
	body, err := yaml.YAMLToJSONStrict([]byte(doc))
	if err != nil {
		return Manifest{}, err
	}
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return Manifest{}, err
	}
	gvk := runtimeschema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	i := slices.IndexFunc(resources, func(r *kinds.Resource) bool { return r.GVK() == gvk })
	if i < 0 {
		return Manifest{}, fmt.Errorf("no built-in kind is %s", gvk)
	}
	if resources[i].Namespaced != (head.Metadata.Namespace != "") {
		return Manifest{}, fmt.Errorf("%s %s: a namespace is missing, or is one too many", head.Kind, head.Metadata.Name)
	}
	return Manifest{
		Target: Target{
			Resource: resources[i], Namespace: head.Metadata.Namespace,
			Caller: &user.DefaultInfo{Name: "jane", Groups: []string{"admins"}},
		},
		Name: head.Metadata.Name, Body: body,
	}, nil
}

// KindOf names a resource in findings: by its kind, and where two resources have one, by
// its version and group too.
func KindOf(r *kinds.Resource) string {
	if r.Conversion != nil {
		return r.Kind + "." + r.Version + "." + r.Group
	}
	return r.Kind
}
