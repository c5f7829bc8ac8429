package suites

import "strings"

// operator is a module whose suites run. It is a version that the Go of this repository builds.
type operator struct {
	module, version string
	packages        []string
}

var operators = []operator{
	{"sigs.k8s.io/controller-runtime", "v0.25.2", []string{
		"pkg/builder", "pkg/cache", "pkg/client", "pkg/envtest", "pkg/manager", "pkg/webhook",
	}},
	{"sigs.k8s.io/cluster-api", "v1.13.6", []string{
		"controllers/crdmigrator", "internal/controllers/cluster", "internal/controllers/machine",
		"internal/controllers/machineset", "internal/util/ssa", "internal/webhooks/test", "util/patch/test",
	}},
	{"sigs.k8s.io/karpenter", "v1.13.0", []string{
		"pkg/apis/v1", "pkg/controllers/nodeclaim/lifecycle", "pkg/controllers/nodepool/registrationhealth",
		"pkg/controllers/state",
	}},
	{"github.com/fluxcd/pkg/ssa", "v0.78.0", []string{".", "jsondiff"}}, // newer ones need Go 1.27
	{"sigs.k8s.io/lws", "v0.8.0", []string{"test/integration/controllers", "test/integration/webhooks"}},
	{"github.com/open-policy-agent/cert-controller", "v0.16.0", []string{"pkg/rotator"}},
}

// short are the suites that run without flags: many tests, of few dependencies.
var short = []string{"karpenter pkg/apis/v1", "karpenter pkg/controllers/nodepool/registrationhealth"}

// suite is the test program of one package of an operator.
type suite struct {
	operator operator
	pkg      string
}

// name is how the lists and the tables call it.
func (s suite) name() string {
	name := s.operator.module[strings.LastIndex(s.operator.module, "/")+1:]
	if s.pkg == "." {
		return name
	}
	return name + " " + s.pkg
}

// suites are those of all operators, in the order of the tables.
func suites() []suite {
	var all []suite
	for _, o := range operators {
		for _, pkg := range o.packages {
			all = append(all, suite{o, pkg})
		}
	}
	return all
}
