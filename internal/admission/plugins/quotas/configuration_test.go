package quotas_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins/quotas"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n"

func TestAWrongConfigurationIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		head + "limitedResources: [{resource: pods, matchContains: [cpu]}]":         "",
		"apiVersion: resourcequota.admission.k8s.io/v1beta1\nkind: Configuration\n": "",
		head +
			"limitedResources: [{matchContains: [cpu]}]": "limitedResources[0].resource: name the resource",
		head + "limitedResource: []":                       `unknown field "limitedResource"`,
		"apiVersion: v1\nkind: ResourceQuotaConfiguration": "want apiserver.config.k8s.io/v1",
		"": "want apiserver.config.k8s.io/v1",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n{": "yaml",
	} {
		_, err := quotas.New([]byte(text), nil)
		if (err == nil) != (want == "") ||
			err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), quotas.Name)) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add(
		[]byte(head + "limitedResources: [{resource: pods, matchContains: [cpu], matchScopes: [{scopeName: a, operator: In}]}]"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := quotas.New(text, nil)
		if (p == nil) != (err != nil) {
			t.Errorf("%v, %v", p, err)
		}
	})
}

// readable is a cluster of which all can be read, for what asks for nothing else.
type readable struct{ quotas.Cluster }

func (readable) UnknownOf(kinds.GroupResource, string, string) error { return nil }

// TestWhatNoQuotaIsAboutCostsOneLookup: nothing is allocated, in a namespace with a quota for something else either.
func TestWhatNoQuotaIsAboutCostsOneLookup(t *testing.T) {
	p, err := quotas.New(nil, readable{})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	q, err := wire.ParseObject([]byte(`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","namespace":"n"},`+
		`"status":{"hard":{"pods":"1"},"used":{"pods":"0"}}}`), nil)
	if err != nil {
		t.Fatalf("parse a quota: %v", err)
	}
	p.Table().Change(p.Table().Follows()[0], q, false)
	for _, c := range []struct {
		resource, namespace string
		op                  admission.Operation
		want                bool
	}{
		{"pods", "n", admission.Create, true},
		{"pods", "other", admission.Create, false},
		{"configmaps", "n", admission.Create, false},
		{"pods", "n", admission.Delete, false},
		{"events", "n", admission.Create, false},
		{"configmaps", "n", admission.Update, false},
	} {
		target := kinds.Target{Resource: &kinds.Resource{Plural: c.resource, Namespaced: true}, Namespace: c.namespace}
		if got := p.Concerns(target, c.op); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if n := testing.AllocsPerRun(100, func() { p.Concerns(target, c.op) }); n != 0 {
			t.Errorf("%+v: %v allocations", c, n)
		}
	}
}
