package builtin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/discovery"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// unserved are the groups, resources and subresources that upstream serves by default and
// this module does not, with the reasons, which docs/kinds.md has too.
var unserved = map[string]string{
	"v1 componentstatuses": "deprecated since 1.19, and there are no components",
	"v1 nodes/proxy":       "needs a kubelet",
	"v1 pods/attach":       "needs a kubelet",
	"v1 pods/exec":         "needs a kubelet",
	"v1 pods/log":          "needs a kubelet",
	"v1 pods/portforward":  "needs a kubelet",
	"v1 pods/proxy":        "needs a kubelet",
	"v1 services/proxy":    "needs the network of a cluster",
}

// storedOlder are the resources whose objects upstream stores in an older version, for the
// release before it, and this module in the served one: their hashes differ.
var storedOlder = []string{
	"certificates.k8s.io/v1 clustertrustbundles",
	"certificates.k8s.io/v1 podcertificaterequests",
	"apiextensions.k8s.io/v1 customresourcedefinitions",
	"resource.k8s.io/v1 devicetaintrules",
	"storagemigration.k8s.io/v1 storageversionmigrations",
}

// stable matches the versions that upstream serves by default
// (pkg/controlplane/instance.go, stableAPIGroupVersionsEnabledByDefault).
var stable = regexp.MustCompile(`^v[0-9]+$`)

// TestDiscoveryIsUpstreams compares the discovery documents of the stable versions with
// those in upstream's module: groups with their order and their versions, and resources
// with their verbs, names, categories and storage versions.
func TestDiscoveryIsUpstreams(t *testing.T) {
	missing := map[string]bool{}
	without := func(name string) bool {
		if unserved[name] != "" {
			missing[name] = true
		}
		return unserved[name] != ""
	}
	var groups metav1.APIGroupList
	readDiscovery(t, "apis.json", &groups)
	var theirGroups, theirs []string
	theirs = append(theirs, resourcesOf(t, "v1", without)...)
	for _, g := range groups.Groups {
		g.Versions = slices.DeleteFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool {
			return !stable.MatchString(v.Version)
		})
		if len(g.Versions) == 0 || without(g.Name) {
			continue
		}
		theirGroups = append(theirGroups, groupLine(g))
		for _, v := range g.Versions {
			theirs = append(theirs, resourcesOf(t, v.GroupVersion, without)...)
		}
	}
	var ourGroups, ours []string
	for _, g := range builtin.Catalog().Groups() {
		if g.Name != "" {
			ourGroups = append(ourGroups, groupLine(discovery.Group(g)))
		}
		for _, v := range g.Versions {
			list := discovery.Resources(v)
			ours = append(ours, resourceLines(t, list, func(string) bool { return false })...)
		}
	}
	if diff := cmp.Diff(theirGroups, ourGroups); diff != "" {
		t.Errorf("groups: - upstream, + gapless\n%s", diff)
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("resources: - upstream, + gapless\n%s", diff)
	}
	for name := range unserved {
		if !missing[name] {
			t.Errorf("unserved has %s, which upstream does not serve by default", name)
		}
	}
	t.Logf("%d groups, %d resources and subresources", len(ourGroups)+1, len(ours))
}

// groupLine is what a document says of a group.
func groupLine(g metav1.APIGroup) string {
	line := g.Name + " prefers " + g.PreferredVersion.Version + " of"
	for _, v := range g.Versions {
		line += " " + v.Version
	}
	return line
}

// resourcesOf are the lines of a group and version at upstream.
func resourcesOf(t *testing.T, gv string, without func(string) bool) []string {
	t.Helper()
	file := "api__v1.json"
	if gv != "v1" {
		file = "apis__" + strings.ReplaceAll(gv, "/", "__") + ".json"
	}
	var list metav1.APIResourceList
	readDiscovery(t, file, &list)
	return resourceLines(t, list, without)
}

// resourceLines are what a document says of resources, without those that are left out.
func resourceLines(t *testing.T, list metav1.APIResourceList, without func(string) bool) []string {
	t.Helper()
	var lines []string
	for _, r := range list.APIResources {
		name := list.GroupVersion + " " + r.Name
		if without(name) {
			continue
		}
		if slices.Contains(storedOlder, name) && r.StorageVersionHash != "" {
			r.StorageVersionHash = "of another version"
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		lines = append(lines, fmt.Sprintf("%s %s", name, text))
	}
	return lines
}

// readDiscovery reads one of the documents in upstream's module.
func readDiscovery(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(upstreamModule(t), "api", "discovery", file))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
