package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

// acceptDiscovery asks for aggregated discovery (GA in 1.30, KEP-3352) and takes
// the old form from servers that do not know it.
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// Resource describes one resource in one version, from discovery.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Singular   string // "pod"; "" on servers before 1.27 for built-in types
	ShortNames []string
	Categories []string // "all"
	Verbs      []string
	Namespaced bool
	Preferred  bool // the version is the one that the server prefers for the group
}

// In returns the collection in a namespace; for a cluster-scoped resource the
// namespace is ignored.
func (r Resource) In(namespace string) Collection {
	if !r.Namespaced {
		namespace = ""
	}
	return Collection{GroupVersionResource: r.GroupVersionResource, Namespace: namespace}
}

// NoResourceError reports that the server has no resource of that name.
type NoResourceError struct {
	Name string
	// Near are similar names, at most five.
	Near []string
}

func (e *NoResourceError) Error() string {
	text := fmt.Sprintf("the server has no resource type %q", e.Name)
	if len(e.Near) > 0 {
		text += "; did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	return text
}

// ResourceFor finds a resource by any name that kubectl accepts: "pods", "pod", "po",
// "Pod", "deployments.apps", "foos.t.example.com", "foos.v1.t.example.com". If
// several groups have it, the first in the server's order is chosen, in its preferred
// version. Errors: *NoResourceError, and those of Resources.
func (c *Client) ResourceFor(ctx context.Context, name string) (Resource, error) {
	all, err := c.Resources(ctx)
	if r, found := find(all, name); found {
		return r, nil // also when a group that is not this one could not be asked
	}
	if err != nil {
		return Resource{}, err
	}
	return Resource{}, &NoResourceError{Name: name, Near: near(all, name)}
}

// Resources lists all resources of the server, without subresources, in the server's
// order and the preferred version of each group first. If the server of a group is down,
// Resources returns those of the other groups and an error. Other errors: those of Do.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	core, coreErr := c.discover(ctx, "/api")
	if kube.Classify(coreErr) == kube.OutcomeNotFound {
		coreErr = nil // a server of custom resources alone has no core group
	}
	groups, err := c.discover(ctx, "/apis")
	if coreErr != nil {
		err = coreErr
	}
	return append(core, groups...), err
}

// discover reads one of the two roots in whichever form the server has it.
func (c *Client) discover(ctx context.Context, root string) ([]Resource, error) {
	body, err := c.Get(ctx, root, acceptDiscovery)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", root, err)
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, fmt.Errorf("discover %s: %w", root, err)
	}
	switch kind.Kind {
	case "APIGroupDiscoveryList":
		var list apidiscovery.APIGroupDiscoveryList
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("discover %s: %w", root, err)
		}
		return aggregated(list), nil
	case "APIVersions":
		var versions metav1.APIVersions
		if err := json.Unmarshal(body, &versions); err != nil {
			return nil, fmt.Errorf("discover %s: %w", root, err)
		}
		return c.versions(ctx, "", versions.Versions)
	case "APIGroupList":
		var list metav1.APIGroupList
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("discover %s: %w", root, err)
		}
		return c.groups(ctx, list)
	}
	return nil, fmt.Errorf("discover %s: %w", root,
		&kube.DecodeError{Offset: -1, Why: fmt.Sprintf("a discovery answer of kind %q", kind.Kind)})
}

func aggregated(list apidiscovery.APIGroupDiscoveryList) []Resource {
	var all []Resource
	for _, g := range list.Items {
		for i, v := range g.Versions {
			for _, r := range v.Resources {
				gvr := schema.GroupVersionResource{Group: g.Name, Version: v.Version, Resource: r.Resource}
				kind := ""
				if r.ResponseKind != nil {
					kind = r.ResponseKind.Kind
				}
				all = append(all, Resource{
					GroupVersionResource: gvr, Kind: kind, Singular: r.SingularResource,
					ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs,
					Namespaced: r.Scope == apidiscovery.ScopeNamespace, Preferred: i == 0,
				})
			}
		}
	}
	return all
}

// groups asks an old server for every version of every group, one after the other.
func (c *Client) groups(ctx context.Context, list metav1.APIGroupList) ([]Resource, error) {
	var all []Resource
	var failed error
	for _, g := range list.Groups {
		versions := []string{g.PreferredVersion.Version}
		for _, v := range g.Versions {
			if v.Version != g.PreferredVersion.Version {
				versions = append(versions, v.Version)
			}
		}
		some, err := c.versions(ctx, g.Name, versions)
		all = append(all, some...)
		if err != nil {
			failed = err
		}
		if ctx.Err() != nil {
			return all, err
		}
	}
	return all, failed
}

func (c *Client) versions(ctx context.Context, group string, versions []string) ([]Resource, error) {
	var all []Resource
	var failed error
	for i, version := range versions {
		if version == "" {
			continue
		}
		path := groupVersionPath(group, version)
		body, err := c.Get(ctx, path, typeJSON)
		var list metav1.APIResourceList
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		if err != nil {
			failed = fmt.Errorf("discover %s: %w", path, err)
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue // a subresource
			}
			all = append(all, Resource{
				GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: r.Name},
				Kind:                 r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames,
				Categories: r.Categories, Verbs: r.Verbs, Namespaced: r.Namespaced, Preferred: i == 0,
			})
		}
	}
	return all, failed
}

// find takes the first match of the best kind: plural, then singular and kind,
// then short name.
func find(all []Resource, name string) (Resource, bool) {
	word, behind, _ := strings.Cut(name, ".")
	word = strings.ToLower(word)
	for _, is := range []func(Resource) bool{
		func(r Resource) bool { return r.Resource == word },
		func(r Resource) bool { return r.Singular == word || strings.ToLower(r.Kind) == word },
		func(r Resource) bool { return slices.Contains(r.ShortNames, word) },
	} {
		for _, r := range all {
			if is(r) && inGroup(r, behind) {
				return r, true
			}
		}
	}
	return Resource{}, false
}

// inGroup reports whether what stands behind the first dot ("", "apps", "v1.apps",
// "v1") names r's group.
func inGroup(r Resource, behind string) bool {
	switch {
	case behind == "", behind == r.Group && r.Group != "":
		return true // the first in the server's order: the preferred version that has it
	case behind == r.Version && r.Group == "":
		return true
	}
	return behind == r.Version+"."+r.Group || behind == r.Version+"."
}

// near lists names that share a beginning with name, or contain it.
func near(all []Resource, name string) []string {
	word, _, _ := strings.Cut(strings.ToLower(name), ".")
	var names []string
	for _, r := range all {
		like := word != "" && (strings.Contains(r.Resource, word) ||
			len(word) >= 3 && strings.HasPrefix(r.Resource, word[:3]))
		if like && len(names) < 5 && !slices.Contains(names, r.GroupResource().String()) {
			names = append(names, r.GroupResource().String())
		}
	}
	return names
}
