package builtin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestFieldLabelsAreThoseOfUpstream has the labels that kube-apiserver 1.37.2 accepts, with those
// that no object has a value for (AddFieldLabelConversionFunc of pkg/apis). Kinds that are missing
// here have the two that need no function: metadata.name and metadata.namespace.
func TestFieldLabelsAreThoseOfUpstream(t *testing.T) {
	const event = "involvedObject.apiVersion involvedObject.fieldPath involvedObject.kind involvedObject.name " +
		"involvedObject.namespace" +
		" involvedObject.resourceVersion involvedObject.uid"
	want := map[string]string{
		"pods": "metadata.name metadata.namespace spec.nodeName spec.restartPolicy spec.schedulerName " +
			"spec.serviceAccountName spec.hostNetwork" +
			" status.phase status.podIP status.podIPs status.nominatedNodeName spec.host",
		"nodes":                  "metadata.name spec.unschedulable",
		"namespaces":             "metadata.name status.phase",
		"replicationcontrollers": "metadata.name metadata.namespace status.replicas",
		"secrets":                "metadata.name metadata.namespace type",
		"services":               "metadata.name metadata.namespace spec.clusterIP spec.type",
		"events":                 "metadata.name metadata.namespace reason reportingComponent source type " + event,
		"events.events.k8s.io": "metadata.name metadata.namespace reason reportingController type " + strings.ReplaceAll(event,
			"involvedObject", "regarding"),
		"jobs.batch": "metadata.name metadata.namespace status.successful",
		"certificatesigningrequests.certificates.k8s.io": "metadata.name spec.signerName",
		"clustertrustbundles.certificates.k8s.io":        "metadata.name spec.signerName",
		"podcertificaterequests.certificates.k8s.io":     "metadata.name spec.nodeName spec.podName spec.signerName",
		"resourceslices.resource.k8s.io":                 "metadata.name spec.driver spec.nodeName spec.pool.name",
	}
	var all []string
	for _, labels := range want {
		all = append(all, strings.Fields(labels)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, r := range builtin.Catalog().Resources() {
		if !slices.Contains(r.Verbs, "list") {
			continue
		}
		labels, special := want[r.GR().String()]
		if !special {
			labels = "metadata.name metadata.namespace"
		}
		expected := slices.Sorted(slices.Values(strings.Fields(labels)))
		got := slices.DeleteFunc(slices.Clone(all), func(label string) bool {
			return r.CheckFields(fields.OneTermEqualSelector(label, "x")) != nil
		})
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", r.GR(), diff)
		}
	}
}

func TestUnknownFieldLabelsAreRefused(t *testing.T) {
	custom := &kinds.Resource{Custom: true, Kind: "Foo"}
	for _, c := range []struct {
		resource       *kinds.Resource
		selector, want string
	}{
		{byPlural(t, "pods"), "metadata.name=a,spec.a=1", "field label not supported: spec.a"},
		{byPlural(t, "configmaps"), "data=1", `"data" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{byPlural(t, "nodes"), "metadata.namespace=a", "field label not supported: metadata.namespace"},
		{custom, "metadata.namespace=a", "field label not supported: metadata.namespace"},
		{byPlural(t, "configmaps"), "metadata.namespace!=a", ""},
	} {
		err := c.resource.CheckFields(fields.ParseSelectorOrDie(c.selector))
		got := ""
		if err != nil {
			got = wire.StatusOf(err).Message
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %s: -want +got:\n%s", c.selector, c.resource.Kind, diff)
		}
	}
	if err := custom.CheckFields(fields.Nothing()); err != nil {
		t.Errorf("a selector that selects nothing has no unsupported label: %v", err)
	}
}
