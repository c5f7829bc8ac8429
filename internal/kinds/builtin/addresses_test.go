package builtin_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// strictFields are fields with an address or a range, as merge patches with a %s for it.
func strictFields() (addresses, ranges []struct{ plural, patch, at string }) {
	type one = struct{ plural, patch, at string }
	addresses = []one{
		{"services", `{"spec":{"externalIPs":["%s"]}}`, "spec.externalIPs[0]"},
		{"services", `{"spec":{"clusterIP":"%[1]s","clusterIPs":["%[1]s"]}}`, "spec.clusterIPs[0]"},
		{"pods", `{"spec":{"hostAliases":[{"ip":"%s","hostnames":["h"]}]}}`, "spec.hostAliases[0].ip"},
		{"pods", `{"spec":{"dnsConfig":{"nameservers":["%s"]}}}`, "spec.dnsConfig.nameservers[0]"},
		{
			"deployments", `{"spec":{"template":{"spec":{"hostAliases":[{"ip":"%s","hostnames":["h"]}]}}}}`,
			"spec.template.spec.hostAliases[0].ip",
		},
		{"endpoints", `{"subsets":[{"addresses":[{"ip":"%s"}]}]}`, "subsets[0].addresses[0].ip"},
		{"endpoints", `{"subsets":[{"notReadyAddresses":[{"ip":"%s"}]}]}`, "subsets[0].notReadyAddresses[0].ip"},
		{"endpointslices", `{"addressType":"IPv4","endpoints":[{"addresses":["%s"]}]}`, "endpoints[0].addresses[0]"},
		{"endpointslices", `{"addressType":"IPv6","endpoints":[{"addresses":["%s"]}]}`, "endpoints[0].addresses[0]"},
	}
	ranges = []one{
		{
			"networkpolicies", `{"spec":{"ingress":[{"from":[{"ipBlock":{"cidr":"%s"}}]}]}}`,
			"spec.ingress[0].from[0].ipBlock.cidr",
		},
		{
			"networkpolicies", `{"spec":{"egress":[{"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["%s"]}}]}]}}`,
			"spec.egress[0].to[0].ipBlock.except[0]",
		},
		{"services", `{"spec":{"type":"LoadBalancer","loadBalancerSourceRanges":[" %s "]}}`, "spec.LoadBalancerSourceRanges[0]"},
		{
			"services",
			`{"spec":{"type":"LoadBalancer"},"metadata":{"annotations":{"service.beta.kubernetes.io/load-balancer-source-ranges":"%s"}}}`,
			"metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]",
		},
		{"nodes", `{"spec":{"podCIDR":"%[1]s","podCIDRs":["%[1]s"]}}`, "spec.podCIDRs[0]"},
		{"servicecidrs", `{"spec":{"cidrs":["%s"]}}`, "spec.cidrs[0]"},
	}
	return addresses, ranges
}

func TestAddressesThatProgramsReadDifferentlyAreRefused(t *testing.T) {
	addresses, ranges := strictFields()
	check := func(plural, patch, at, value string) {
		t.Helper()
		r := byPlural(t, plural)
		errs, warnings := r.Type.Validate(changed(t, r, fmt.Sprintf(patch, value)), nil)
		if text := fmt.Sprint(errs.ToAggregate()); !strings.Contains(text,
			fmt.Sprintf("%s: Invalid value: %q: must not", at, value)) {
			t.Errorf("%s %s: %s", plural, value, text)
		}
		if len(warnings) > 0 {
			t.Errorf("%s %s is refused, and warned about: %q", plural, value, warnings)
		}
	}
	for _, f := range addresses {
		for _, value := range []string{"010.0.0.1", "::ffff:1.2.3.4"} {
			check(f.plural, f.patch, f.at, value)
		}
	}
	for _, f := range ranges {
		for _, value := range []string{"10.0.0.1/8", "010.0.0.0/8", "10.0.0.0/08", "::ffff:10.0.0.0/104"} {
			check(f.plural, f.patch, f.at, value)
		}
	}
}

// TestAddressesOfOlderRulesMayStay says that what is stored can be written again, and that
// nothing like it can be added.
func TestAddressesOfOlderRulesMayStay(t *testing.T) {
	tests := []struct{ plural, stored, same, worse, wrong string }{
		{
			"networkpolicies", `{"spec":{"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.1/8"}}]}]}}`,
			`{"spec":{"ingress":[{"from":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["10.0.0.1/8"]}}]}]}}`, // elsewhere
			`{"spec":{"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.2/8"}}]}]}}`, "spec.ingress[0].from[0].ipBlock.cidr",
		},
		{
			"services", `{"spec":{"externalIPs":["010.0.0.1"]}}`, `{"spec":{"externalIPs":["10.0.0.9","010.0.0.1"]}}`,
			`{"spec":{"externalIPs":["010.0.0.1","010.0.0.2"]}}`, "spec.externalIPs[1]",
		},
		{
			"services", `{"spec":{"type":"LoadBalancer","loadBalancerSourceRanges":["10.0.0.1/8 "]}}`,
			`{"spec":{"type":"LoadBalancer","loadBalancerSourceRanges":["10.0.0.1/8"]}}`,
			`{"spec":{"type":"LoadBalancer","loadBalancerSourceRanges":["10.0.0.1/08"]}}`, "spec.LoadBalancerSourceRanges[0]",
		},
		{
			"endpoints", `{"subsets":[{"addresses":[{"ip":"010.0.0.1"}]}]}`,
			`{"subsets":[{"addresses":[{"ip":"010.0.0.1"}]}],"metadata":{"labels":{"a":"b"}}}`,
			`{"subsets":[{"addresses":[{"ip":"010.0.0.1"},{"ip":"10.0.0.2"}]}]}`, "subsets[0].addresses[0].ip",
		},
		{
			"endpointslices", `{"addressType":"IPv6","endpoints":[{"addresses":["2001:DB8::1"]}]}`,
			`{"addressType":"IPv6","endpoints":[{"addresses":["2001:DB8::1"]}],"ports":[]}`,
			`{"addressType":"IPv6","endpoints":[{"addresses":["2001:DB8::1"]},{"addresses":["2001:db8::2"]}]}`,
			"endpoints[0].addresses[0]",
		},
	}
	for _, tt := range tests {
		t.Run(tt.plural, func(t *testing.T) {
			r := byPlural(t, tt.plural)
			stored := changed(t, r, tt.stored)
			if errs, _ := r.Type.Validate(changed(t, r, tt.same), stored); len(errs) > 0 {
				t.Errorf("what is stored may not stay: %v", errs.ToAggregate())
			}
			if errs, _ := r.Type.Validate(changed(t, r, tt.worse), stored); !hasField(errs, tt.wrong) {
				t.Errorf("%v, want an error at %s", errs.ToAggregate(), tt.wrong)
			}
		})
	}
}

func hasField(errs field.ErrorList, at string) bool {
	for _, err := range errs {
		if err.Field == at {
			return true
		}
	}
	return false
}

// TestStatusesAreWrittenWhateverTheSpecIs: a status cannot change the spec, which may have been
// valid under older rules only. New addresses in the status are strict.
func TestStatusesAreWrittenWhateverTheSpecIs(t *testing.T) {
	tests := []struct{ plural, spec, status, wrong, at string }{
		{
			"pods", `"spec":{"hostAliases":[{"ip":"010.0.0.1","hostnames":["h"]}]}`,
			`{"podIP":"010.0.0.1","podIPs":[{"ip":"010.0.0.1"}]}`,
			`{"podIP":"010.0.0.2","podIPs":[{"ip":"010.0.0.2"}]}`, "status.podIPs[0]",
		},
		{
			"services", `"spec":{"externalIPs":["010.0.0.1"]}`,
			`{"loadBalancer":{"ingress":[{"ip":"010.0.0.1","ipMode":"VIP"}]}}`,
			`{"loadBalancer":{"ingress":[{"ip":"010.0.0.2","ipMode":"VIP"}]}}`, "status.loadBalancer.ingress[0].ip",
		},
		{
			"ingresses", `"spec":{"defaultBackend":{"service":{"name":"Not a name"}}}`,
			`{"loadBalancer":{"ingress":[{"ip":"010.0.0.1"}]}}`,
			`{"loadBalancer":{"ingress":[{"ip":"010.0.0.2"}]}}`, "status.loadBalancer.ingress[0].ip",
		},
		{
			"deployments", `"spec":{"template":{"spec":{"hostAliases":[{"ip":"010.0.0.1","hostnames":["h"]}]}}}`,
			`{"replicas":1}`,
			`{"replicas":-1}`, "status.replicas",
		},
		{"namespaces", `"spec":{}`, `{"phase":"Active"}`, `{"phase":"Terminating"}`, "status.Phase"}, // it is not being deleted
	}
	for _, tt := range tests {
		t.Run(tt.plural, func(t *testing.T) {
			r := byPlural(t, tt.plural)
			stored := changed(t, r, "{"+tt.spec+`,"status":`+tt.status+"}")
			if errs, _ := r.CheckStatus(stored.DeepCopy(), stored); len(errs) > 0 {
				t.Errorf("the stored status is refused: %v", errs.ToAggregate())
			}
			if errs, _ := r.CheckStatus(changed(t, r, "{"+tt.spec+`,"status":`+tt.wrong+"}"), stored); !hasField(errs, tt.at) {
				t.Errorf("%v, want an error at %s", errs.ToAggregate(), tt.at)
			}
		})
	}
}
