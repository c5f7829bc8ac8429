package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// homepage is where the project, and its releases, are.
const homepage = "https://github.com/gapless-io/gapless"

// object is a map of YAML.
type object = map[string]any

// krew writes the manifest by which krew installs the program as kubectl gapless: it goes into krew's index.
func (r *release) krew(_ context.Context, dir string) error {
	var platforms []object
	for _, p := range r.programs {
		archive := r.archiveName(p)
		sum, err := sumOf(filepath.Join(dir, archive))
		if err != nil {
			return err
		}
		platforms = append(platforms, object{
			"selector": object{"matchLabels": object{"os": p.system, "arch": p.arch}},
			"uri":      fmt.Sprintf("%s/releases/download/%s/%s", homepage, r.version, archive),
			"sha256":   sum,
			"bin":      p.name(),
			"files":    []object{{"from": p.name(), "to": "."}, {"from": "LICENSE", "to": "."}},
		})
	}
	text, err := yaml.Marshal(object{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   object{"name": "gapless"},
		"spec": object{
			"version": r.version, "homepage": homepage, "platforms": platforms,
			"shortDescription": "See what changed, and watch without gaps",
			"description": "gapless shows the changes of a cluster's objects, watches them without gaps, and runs an API\n" +
				"server or a relay that keeps the history that watches need.\n",
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "gapless.krew.yaml"), text, 0o644)
}
