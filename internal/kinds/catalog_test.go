package kinds_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
)

// res makes a resource of "group/version/plural"; versions after "!" are stored
// in the one after it.
func res(path string) *kinds.Resource {
	path, storage, found := strings.Cut(path, "!")
	parts := strings.Split(path, "/")
	r := &kinds.Resource{Group: parts[0], Version: parts[1], Plural: parts[2], StorageVersion: parts[1]}
	if found {
		r.StorageVersion = storage
	}
	return r
}

func paths(resources []*kinds.Resource) []string {
	var got []string
	for _, r := range resources {
		got = append(got, r.Group+"/"+r.Version+"/"+r.Plural)
	}
	return got
}

func TestCatalogIsInDiscoveryOrder(t *testing.T) {
	c := kinds.NewCatalog(
		res("z.io/v1beta1/things!v1"), res("apps/v1/deployments"), res("/v1/pods"), res("z.io/v2/things!v1"),
		res("z.io/v1/things"), res("z.io/v1/apples"), res("/v1/configmaps"), res("z.io/v1alpha1/things!v1"),
	)
	want := []string{
		"/v1/configmaps", "/v1/pods", "apps/v1/deployments", "z.io/v2/things",
		"z.io/v1/apples", "z.io/v1/things", "z.io/v1beta1/things", "z.io/v1alpha1/things",
	}
	if diff := cmp.Diff(want, paths(c.Resources())); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	var groups []string
	for _, g := range c.Groups() {
		var versions []string
		for _, v := range g.Versions {
			versions = append(versions, v.Version+"="+strings.Join(paths(v.Resources), ","))
		}
		groups = append(groups, g.Name+": "+strings.Join(versions, " "))
	}
	wantGroups := []string{
		": v1=/v1/configmaps,/v1/pods", "apps: v1=apps/v1/deployments",
		"z.io: v2=z.io/v2/things v1=z.io/v1/apples,z.io/v1/things v1beta1=z.io/v1beta1/things v1alpha1=z.io/v1alpha1/things",
	}
	if diff := cmp.Diff(wantGroups, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestWithReplacesEveryVersionAndKeepsTheOldCatalog(t *testing.T) {
	gr := runtimeschema.GroupResource{Group: "z.io", Resource: "things"}
	old := kinds.NewCatalog(res("/v1/pods"), res("z.io/v1/things"), res("z.io/v1beta1/things!v1"))
	updated := old.With(res("z.io/v2/things"))

	if diff := cmp.Diff([]string{"/v1/pods", "z.io/v2/things"}, paths(updated.Resources())); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/v1/pods"}, paths(updated.Without(gr).Resources())); diff != "" {
		t.Errorf("without (-want +got):\n%s", diff)
	}
	if _, ok := updated.Without(gr).Storage(gr); ok {
		t.Error("the removed resource still has a storage version")
	}
	if diff := cmp.Diff([]string{"/v1/pods", "z.io/v1/things", "z.io/v1beta1/things"}, paths(old.Resources())); diff != "" {
		t.Errorf("the old catalog changed (-want +got):\n%s", diff)
	}
}

// TestCatalogsThatGrowAndShrinkAreAsIfMadeAtOnce: With and Without keep what is sorted, and sort nothing again.
func TestCatalogsThatGrowAndShrinkAreAsIfMadeAtOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test that can be repeated
	has, c := map[runtimeschema.GroupResource][]*kinds.Resource{}, kinds.NewCatalog()
	for range 2000 {
		gr := runtimeschema.GroupResource{
			Group: []string{"", "apps", "a.io", "b.io"}[random.IntN(4)], Resource: fmt.Sprint("r", random.IntN(8)),
		}
		if random.IntN(3) == 0 {
			delete(has, gr)
			c = c.Without(gr)
		} else {
			versions := []string{"v1", "v2", "v1beta1"}[:1+random.IntN(3)]
			has[gr] = nil
			for _, v := range versions {
				r := res(gr.Group + "/" + v + "/" + gr.Resource + "!" + versions[0])
				r.Unserved = random.IntN(4) == 0
				has[gr] = append(has[gr], r)
			}
			c = c.With(has[gr]...)
		}
		want := kinds.NewCatalog(slices.Concat(slices.Collect(maps.Values(has))...)...)
		for name, lists := range map[string][2][]*kinds.Resource{
			"resources": {want.Resources(), c.Resources()},
			"stored":    {want.Stored(), c.Stored()},
			"all":       {slices.Collect(want.All()), slices.Collect(c.All())},
		} {
			sorted := func(r []*kinds.Resource) []string {
				if name == "all" { // in no order
					return slices.Sorted(slices.Values(paths(r)))
				}
				return paths(r)
			}
			if diff := cmp.Diff(sorted(lists[0]), sorted(lists[1])); diff != "" {
				t.Fatalf("%s after a change of %v (-want +got):\n%s", name, gr, diff)
			}
		}
		if len(c.Groups()) != len(want.Groups()) {
			t.Fatalf("%d groups, want %d", len(c.Groups()), len(want.Groups()))
		}
		if _, known := c.Storage(gr); known != (has[gr] != nil) {
			t.Fatalf("%v is there: %t", gr, known)
		}
	}
}

func TestUnservedVersionsAreNotLookedUp(t *testing.T) {
	stored := res("z.io/v1/things")
	stored.Unserved = true
	old := res("z.io/v0/things!v1")
	old.Unserved = true
	c := kinds.NewCatalog(stored, old, res("z.io/v2/things!v1")).With(res("/v1/pods"))
	if _, ok := c.Lookup(stored.GVR()); ok {
		t.Error("Lookup found a version that is not served")
	}
	if r, ok := c.Storage(stored.GR()); !ok || r != stored {
		t.Errorf("Storage got %v, %v, want the unserved version", r, ok)
	}
	if diff := cmp.Diff([]string{"/v1/pods", "z.io/v1/things"}, paths(c.Stored())); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/v1/pods", "z.io/v2/things"}, paths(c.Resources())); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	all := slices.Collect(c.All())
	slices.SortFunc(all, func(a, b *kinds.Resource) int { return strings.Compare(a.APIVersion(), b.APIVersion()) })
	if diff := cmp.Diff([]string{"/v1/pods", "z.io/v0/things", "z.io/v1/things", "z.io/v2/things"}, paths(all)); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if all := slices.Collect(c.Without(stored.GR()).All()); len(all) != 1 {
		t.Errorf("without the resource: %v", paths(all))
	}
}

func TestNameRules(t *testing.T) {
	tests := []struct {
		name string
		rule func(string) []string
		good []string
		bad  []string
	}{
		{"subdomain", kinds.SubdomainName, []string{"a.b-c", "1"}, []string{"A", "a_b", "-a", "a..b", strings.Repeat("a", 254)}},
		{"label", kinds.LabelName, []string{"a", "1a"}, []string{"a.b", strings.Repeat("a", 64)}},
		{"segment", kinds.SegmentName, []string{"system:a", "A B"}, []string{".", "..", "a/b", "a%b"}},
		{"controller", kinds.ControllerName(5), []string{"abcde"}, []string{"abcdef", "A"}},
	}
	for _, tt := range tests {
		for _, good := range tt.good {
			if why := tt.rule(good); len(why) > 0 {
				t.Errorf("%s: %q got %q, want none", tt.name, good, why)
			}
		}
		for _, bad := range tt.bad {
			if why := tt.rule(bad); len(why) == 0 {
				t.Errorf("%s: %q got no error", tt.name, bad)
			}
		}
	}
}

func TestAgeMatchesKubectl(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	tests := []struct {
		then time.Time
		want string
	}{
		{time.Time{}, "<unknown>"},
		{now.Add(time.Hour), "<invalid>"},
		{now.Add(-79 * time.Second), "79s"},
		{now.Add(-5*24*time.Hour - 3*time.Hour), "5d3h"},
	}
	for _, tt := range tests {
		cells := []any{kinds.Age(tt.then)}
		if got := kinds.Shown(cells, now)[0]; got != tt.want {
			t.Errorf("age of %v: got %v, want %s", tt.then, got, tt.want)
		}
	}
}

func TestExcerptIsShort(t *testing.T) {
	for body, want := range map[string]string{
		"":                             "<empty>",
		`{"a":1}`:                      `{"a":1}`,
		"k8s\x00":                      "6b387300",
		"{" + strings.Repeat("x", 100): "{" + strings.Repeat("x", 29) + " ...",
	} {
		if got := kinds.Excerpt([]byte(body)); got != want {
			t.Errorf("excerpt of %q: got %q, want %q", body, got, want)
		}
	}
}
