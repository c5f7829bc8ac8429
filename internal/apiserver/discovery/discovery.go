// Package discovery encodes the discovery documents.
//
// A [Document], aggregated over all groups and kept in [Documents] until
// the catalog changes. The legacy documents, of a [Group] and of the [Resources] of one
// version, are encoded for each request. merged.go puts what other servers serve among them.
package discovery

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/kinds"
)

// Documents keeps the aggregated documents of the catalog, and of the other servers, that they were made from.
type Documents struct {
	mu sync.Mutex
	// mu guards the documents of one catalog.
	catalog *kinds.Catalog
	behind  *aggregator.Versions
	docs    map[aggregated]Document
}

// aggregated identifies a document: of /api or of /apis, in a version of its format.
type aggregated struct {
	root    string
	version string
}

// Document is an encoded document with its entity tag.
type Document struct {
	Body []byte
	ETag string
}

// Document returns the aggregated document of all groups below a root, "api" or "apis",
// in a version of its format, v2 or v2beta1. Behind is what other servers serve; nil: nothing. The document is shared:
// callers must not change it.
func (d *Documents) Document(catalog *kinds.Catalog, behind *aggregator.Versions, root, version string) (Document, error) {
	name := aggregated{root: root, version: version}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.catalog != catalog || d.behind != behind {
		d.catalog, d.behind, d.docs = catalog, behind, map[aggregated]Document{}
	}
	if doc, ok := d.docs[name]; ok {
		return doc, nil
	}
	list := discoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + name.version},
		Items:    []discoveryv2.APIGroupDiscovery{},
	}
	if behind != nil && name.root != "api" {
		list.Items = aggregateAll(catalog, behind)
	} else {
		for _, g := range catalog.Groups() {
			if (g.Name == "") == (name.root == "api") {
				list.Items = append(list.Items, aggregate(g))
			}
		}
	}
	// v2beta1 has the same fields.
	body, err := json.Marshal(list)
	if err != nil {
		return Document{}, fmt.Errorf("encode discovery: %w", err)
	}
	doc := Document{Body: body, ETag: fmt.Sprintf(`"%X"`, sha512.Sum512(body))}
	d.docs[name] = doc
	return doc, nil
}

func aggregate(g kinds.Group) discoveryv2.APIGroupDiscovery {
	group := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	for i := range g.Versions {
		group.Versions = append(group.Versions, aggregateVersion(&g.Versions[i]))
	}
	return group
}

func aggregateVersion(v *kinds.GroupVersion) discoveryv2.APIVersionDiscovery {
	version := discoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
	for _, r := range v.Resources {
		scope := discoveryv2.ScopeCluster
		if r.Namespaced {
			scope = discoveryv2.ScopeNamespace
		}
		version.Resources = append(version.Resources, discoveryv2.APIResourceDiscovery{
			Resource: r.Plural, Scope: scope, SingularResource: r.Singular, Verbs: slices.Clone(r.Verbs),
			ShortNames: r.ShortNames, Categories: r.Categories, Subresources: subresources(r),
			ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		})
	}
	return version
}

// Group is the document of a group, without its type. Its versions are in their order.
func Group(g kinds.Group) metav1.APIGroup {
	group := metav1.APIGroup{Name: g.Name}
	for _, v := range g.Versions {
		gv := metav1.GroupVersionForDiscovery{GroupVersion: g.Name + "/" + v.Version, Version: v.Version}
		group.Versions = append(group.Versions, gv)
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// Resources is the legacy document of one group and version.
func Resources(v kinds.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	list.APIResources = []metav1.APIResource{}
	for _, r := range v.Resources {
		list.GroupVersion = r.APIVersion()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories, StorageVersionHash: storageHash(r),
		})
		subs := subresources(r)
		if r.Custom { // apiextensions customresource_discovery_controller.go: the status first, but only here
			slices.Reverse(subs)
		}
		for _, sub := range subs {
			res := metav1.APIResource{
				Name: r.Plural + "/" + sub.Subresource, Namespaced: r.Namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs,
			}
			if sub.ResponseKind.Group != r.Group || sub.ResponseKind.Version != r.Version {
				res.Group, res.Version = sub.ResponseKind.Group, sub.ResponseKind.Version
			}
			list.APIResources = append(list.APIResources, res)
		}
	}
	return list
}

// storageHash identifies the version in which the objects of a resource are stored; "" for
// a resource that stores nothing (apiserver endpoints/discovery StorageVersionHash).
func storageHash(r *kinds.Resource) string {
	home := r.Home()
	if home.StorageVersion == "" {
		return ""
	}
	const length = 8 // bytes of the sum
	sum := sha256.Sum256([]byte(home.Group + "/" + home.StorageVersion + "/" + home.Kind))
	return base64.StdEncoding.EncodeToString(sum[:length])
}

func subresources(r *kinds.Resource) []discoveryv2.APISubresourceDiscovery {
	var subs []discoveryv2.APISubresourceDiscovery
	verbs := []string{"get", "patch", "update"}
	if r.Scale != nil {
		subs = append(subs, discoveryv2.APISubresourceDiscovery{
			Subresource: "scale", Verbs: verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		})
	}
	if r.HasStatus {
		subs = append(subs, discoveryv2.APISubresourceDiscovery{
			Subresource: "status", Verbs: verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		})
	}
	for _, sub := range r.Subresources {
		if sub.Name == "status" {
			continue // HasStatus says it
		}
		kind := metav1.GroupVersionKind(sub.Kind)
		subs = append(subs, discoveryv2.APISubresourceDiscovery{Subresource: sub.Name, Verbs: sub.Verbs, ResponseKind: &kind})
	}
	slices.SortFunc(subs, func(a, b discoveryv2.APISubresourceDiscovery) int {
		return strings.Compare(a.Subresource, b.Subresource)
	})
	return subs
}
