// Package apiextensions has the kind of the group apiextensions.k8s.io: definitions of custom resources. What
// a definition means is in package custom.
package apiextensions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	// The name rule (plural.group) is part of the definition's own validation.
	anyName := func(string) []string { return nil }
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
			Short: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Cluster: true, Status: true,
			NeedsVersion: true, Name: anyName, Defaults: custom.DefaultDefinition,
			Generation: kinds.GenerationOfSpec, AnyFinalizers: true,
			// It keeps no metadata in a write of the status: upstream's strategy means to reset all of it, but copies
			// the new metadata onto itself (kubernetes#137681).
			Table: definitionTable(),
		}, gokind.Rules[*apiextensionsv1.CustomResourceDefinition]{
			Create: custom.CheckDefinition, Update: custom.CheckDefinitionUpdate, Warn: custom.DefinitionWarnings,
		}),
	}
}
