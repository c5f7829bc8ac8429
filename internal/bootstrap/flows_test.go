package bootstrap_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

const flows = "flowcontrol.apiserver.k8s.io"

func (c *cluster) schema(name string) kinds.Target { return c.at(flows, "flowschemas", "", name) }

func (c *cluster) level(name string) kinds.Target {
	return c.at(flows, "prioritylevelconfigurations", "", name)
}

// says waits until the condition Dangling of a FlowSchema has a status and a reason.
func (c *cluster) says(name, status, reason string) *wire.Object {
	c.t.Helper()
	return c.eventually(c.schema(name), name+" is "+reason, func(o *wire.Object) bool {
		for _, have := range read[flowcontrolv1.FlowSchema](c.t, o).Status.Conditions {
			if have.Type == "Dangling" && string(have.Status) == status && have.Reason == reason {
				return strings.Contains(have.Message, read[flowcontrolv1.FlowSchema](c.t, o).Spec.PriorityLevelConfiguration.Name)
			}
		}
		return false
	})
}

// noted waits until all FlowSchemas have their condition: nothing is written any more then.
func (c *cluster) noted() {
	c.t.Helper()
	for _, s := range append(flowcontrol.MandatoryFlowSchemas, flowcontrol.SuggestedFlowSchemas...) {
		c.says(s.Name, "False", "Found")
	}
}

// TestFlowsExistBeforeTheServerIsReady as upstream's: the defaults change nothing of them.
func TestFlowsExistBeforeTheServerIsReady(t *testing.T) {
	c := keep(t, openLog(t), here, nil)
	for _, want := range append(flowcontrol.MandatoryFlowSchemas, flowcontrol.SuggestedFlowSchemas...) {
		got := read[flowcontrolv1.FlowSchema](t, c.find(c.schema(want.Name)))
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" || got.Annotations["apf.kubernetes.io/autoupdate-spec"] != "true" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
	for _, want := range append(flowcontrol.MandatoryPriorityLevelConfigurations,
		flowcontrol.SuggestedPriorityLevelConfigurations...) {
		got := read[flowcontrolv1.PriorityLevelConfiguration](t, c.find(c.level(want.Name)))
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" || got.Annotations["apf.kubernetes.io/autoupdate-spec"] != "true" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
	if n := c.count(c.at(flows, "flowschemas")) + c.count(c.at(flows, "prioritylevelconfigurations")); n != 19 {
		t.Errorf("there are %d objects of flow control", n)
	}
}

// TestFlowsAreRestored: mandatory ones always, suggested ones unless they say that they are not.
func TestFlowsAreRestored(t *testing.T) {
	c := keep(t, openLog(t), here, nil)
	const unsaid, no = `"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":null}}`,
		`"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}}`
	precedence := func(n int32, updated string) func(*wire.Object) bool {
		return func(o *wire.Object) bool {
			s := read[flowcontrolv1.FlowSchema](t, o)
			return s.Spec.MatchingPrecedence == n && s.Annotations["apf.kubernetes.io/autoupdate-spec"] == updated
		}
	}
	c.merge(c.schema("probes"), `{"spec":{"matchingPrecedence":5}}`)
	c.eventually(c.schema("probes"), "its spec", precedence(2, "true"))
	c.merge(c.schema("catch-all"), `{`+no+`}`)
	c.eventually(c.schema("catch-all"), "its annotation", precedence(10000, "true"))
	c.merge(c.schema("system-nodes"), `{`+no+`,"spec":{"matchingPrecedence":600}}`)
	c.merge(c.schema("service-accounts"), `{`+unsaid+`,"spec":{"matchingPrecedence":700}}`)
	c.eventually(c.schema("service-accounts"), "that it is the user's", precedence(700, "false"))
	if o := c.find(c.schema("system-nodes")); !precedence(600, "false")(o) {
		t.Errorf("system-nodes is %s", o.JSON())
	}
	c.merge(c.level("exempt"), `{"spec":{"exempt":{"lendablePercent":20}}}`)
	was := c.find(c.level("workload-low")).UID()
	c.delete(c.level("workload-low"))
	c.eventually(c.level("workload-low"), "another one", func(o *wire.Object) bool { return o != nil && o.UID() != was })
	if o := read[flowcontrolv1.PriorityLevelConfiguration](t, c.find(c.level("exempt"))); *o.Spec.Exempt.LendablePercent != 20 {
		t.Errorf("exempt has %+v", o.Spec.Exempt)
	}
}

// TestFormerFlowsAreRemoved: those that another version has made, and no others.
func TestFormerFlowsAreRemoved(t *testing.T) {
	c := keep(t, openLog(t), here, nil)
	object := func(name, updated string) string {
		return `{"metadata":{"name":"` + name + `","annotations":{"apf.kubernetes.io/autoupdate-spec":"` + updated + `"}},` +
			`"spec":{"priorityLevelConfiguration":{"name":"system"}}}`
	}
	c.create(c.at(flows, "flowschemas"), object("users", "false"))
	c.create(c.at(flows, "flowschemas"), object("former", "true"))
	c.eventually(c.schema("former"), "its end", gone)
	if c.find(c.schema("users")) == nil {
		t.Error("that of a user is gone")
	}
}

// TestDanglingFollowsTheLevel of a FlowSchema of a user.
func TestDanglingFollowsTheLevel(t *testing.T) {
	log := openLog(t)
	c := keep(t, log, here, nil)
	c.create(c.at(flows, "flowschemas"), `{"metadata":{"name":"mine"},"spec":{"priorityLevelConfiguration":{"name":"mine"}}}`)
	c.says("mine", "True", "NotFound")
	c.create(c.at(flows, "prioritylevelconfigurations"),
		`{"metadata":{"name":"mine"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`)
	c.says("mine", "False", "Found")
	c.delete(c.level("mine"))
	c.says("mine", "True", "NotFound")
	c.merge(c.schema("mine"), `{"spec":{"priorityLevelConfiguration":{"name":"exempt"}}}`)
	o := c.says("mine", "False", "Found")
	if !strings.Contains(string(o.JSON()), "api-priority-and-fairness-config-consumer-v1") {
		t.Errorf("the status is managed otherwise: %s", o.JSON())
	}
	c.noted()
	c.stop()
	before := c.revision()
	c = keep(t, log, here, nil)
	c.create(c.at(flows, "flowschemas"), `{"metadata":{"name":"later"},"spec":{"priorityLevelConfiguration":{"name":"mine"}}}`)
	c.says("later", "True", "NotFound")
	if wrote := c.revision() - before; wrote != 2 {
		t.Errorf("%d writes since the restart, want those of the object and its status", wrote)
	}
}

// TestSharedFlowsAreMadeAndLeft: kube-apiserver may have others.
func TestSharedFlowsAreMadeAndLeft(t *testing.T) {
	log := openLog(t)
	c := keepBy(t, log, func(c *cluster) bootstrap.Config {
		return bootstrap.Config{Verbs: c, Address: netip.MustParseAddrPort(here), Flows: bootstrap.FlowsShared}
	})
	c.merge(c.schema("probes"), `{"spec":{"matchingPrecedence":5}}`)
	c.create(c.at(flows, "flowschemas"),
		`{"metadata":{"name":"newer","annotations":{"apf.kubernetes.io/autoupdate-spec":"true"}},`+
			`"spec":{"priorityLevelConfiguration":{"name":"system"}}}`)
	c.says("newer", "False", "Found")
	was := c.find(c.level("workload-low")).UID()
	c.delete(c.level("workload-low"))
	c.eventually(c.level("workload-low"), "another one", func(o *wire.Object) bool { return o != nil && o.UID() != was })
	if o := read[flowcontrolv1.FlowSchema](t, c.find(c.schema("probes"))); o.Spec.MatchingPrecedence != 5 {
		t.Errorf("probes has %+v", o.Spec)
	}
	if c.find(c.schema("newer")) == nil {
		t.Error("that of another version is gone")
	}
}
