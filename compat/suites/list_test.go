package suites

import (
	"path"
	"strings"
)

// operator is a module whose suites run. It is a version that the Go of this repository builds.
type operator struct {
	module, version string
	packages        []string
	// makes are the directories that its Makefile makes.
	makes []made
	// labels select specs, as its Makefile does: an expression of ginkgo.
	labels string
	// skip has the tests that ask hosts of the internet, as an expression of go test's flag -skip.
	skip string
}

var operators = []operator{
	{module: "sigs.k8s.io/controller-runtime", version: "v0.25.2", packages: []string{
		"pkg/builder", "pkg/cache", "pkg/client", "pkg/envtest", "pkg/manager", "pkg/webhook",
	}},
	{module: "sigs.k8s.io/cluster-api", version: "v1.13.6", packages: []string{
		"controllers/crdmigrator", "internal/controllers/cluster", "internal/controllers/machine",
		"internal/controllers/machineset", "internal/util/ssa", "internal/webhooks/test", "util/patch/test",
	}},
	{module: "sigs.k8s.io/karpenter", version: "v1.13.0", packages: []string{
		"pkg/apis/v1", "pkg/controllers/nodeclaim/lifecycle", "pkg/controllers/nodepool/registrationhealth",
		"pkg/controllers/state",
	}},
	// Newer ones of fluxcd need Go 1.27.
	{module: "github.com/fluxcd/pkg/ssa", version: "v0.78.0", packages: []string{".", "jsondiff"}},
	{module: "github.com/fluxcd/pkg/runtime", version: "v0.117.0", packages: []string{
		"acl", "cel", "client", "controller", "events", "patch", "secrets", "testenv",
	}},
	{module: "sigs.k8s.io/lws", version: "v0.8.0", packages: []string{
		"test/integration/controllers", "test/integration/webhooks",
	}},
	{module: "sigs.k8s.io/jobset", version: "v0.12.0", packages: []string{
		"test/integration/controller", "test/integration/webhook",
	}},
	kueue,
	{module: "github.com/open-policy-agent/cert-controller", version: "v0.16.0", packages: []string{"pkg/rotator"}},
	{module: "github.com/kubernetes-sigs/kro", version: "v0.9.4", packages: []string{"test/integration/suites/core"}},
	{module: "github.com/ray-project/kuberay/ray-operator", version: "v1.6.0", packages: []string{
		"controllers/ray", "pkg/webhooks/v1",
	}},
	// Its pkg/controller/constrainttemplate needs ValidatingAdmissionPolicy v1beta1, which Kubernetes 1.34 removed;
	// that of pkg/controller/export reads no flags of go test, and so does not say what passed.
	{module: "github.com/open-policy-agent/gatekeeper/v3", version: "v3.23.1", packages: []string{
		"pkg/cachemanager/cachemanager_test", "pkg/controller/config", "pkg/controller/connectionstatus",
		"pkg/controller/constrainttemplatestatus", "pkg/controller/expansion", "pkg/controller/externaldata",
		"pkg/controller/externaldatastatus", "pkg/controller/mutators/core", "pkg/controller/syncset",
		"pkg/controller/webhookconfig", "pkg/readiness", "pkg/readiness/pruner", "pkg/watch",
	}},
	trainer,
	// Its apis/eventing/v1alpha1 leaves the servers running; its controllers are 3500 packages.
	{module: "github.com/kedacore/keda/v2", version: "v2.21.0", packages: []string{"apis/keda/v1alpha1"}},
	// The modules of newer ones are not published. Its pkg/controllers/externalsecret, pushsecret and secretstore import
	// the providers.
	{module: "github.com/external-secrets/external-secrets", version: "v0.16.2", packages: []string{
		"pkg/controllers/clusterexternalsecret", "pkg/controllers/clusterpushsecret", "pkg/controllers/crds",
		"pkg/controllers/webhookconfig",
	}},
	// Of newer ones modules are missing in the proxy, or they need Go 1.27.
	{
		module: "github.com/fluxcd/source-controller", version: "v1.8.0", packages: []string{"internal/controller"},
		skip: "_keyless$|SignatureCosign/.*keyless|_buildFromTarballArtifact/Resolves|HelmRepository.*/.*system_CA_pool",
	},
}

var kueue = operator{
	module: "sigs.k8s.io/kueue", version: "v0.17.0",
	packages: []string{
		"test/integration/singlecluster/controller/core", "test/integration/singlecluster/webhook/core",
		"test/integration/singlecluster/webhook/jobs", "test/integration/singlecluster/scheduler",
		"test/integration/singlecluster/controller/jobs/job", "test/integration/singlecluster/controller/jobs/pod",
		"test/integration/singlecluster/controller/dra", "test/integration/singlecluster/controller/failurerecovery",
	},
	makes: []made{
		{dir: "config/components/crd/_output", from: "config/components/crd"},
		{dir: "dep-crds/appwrapper-crds", module: "github.com/project-codeflare/appwrapper", from: "config/crd/bases"},
		{dir: "dep-crds/jobset-operator", module: "sigs.k8s.io/jobset", from: "config/components/crd/bases"},
		{dir: "dep-crds/kf-trainer-crds", module: "github.com/kubeflow/trainer/v2", from: "manifests/base/crds"},
		{dir: "dep-crds/mpi-operator", module: "github.com/kubeflow/mpi-operator", from: "manifests/base"},
		{dir: "dep-crds/ray-operator-crds", module: "github.com/ray-project/kuberay/ray-operator", from: "config/crd/bases"},
		{
			dir: "dep-crds/training-operator-crds", module: "github.com/kubeflow/training-operator",
			from: "manifests/base/crds", without: "kubeflow.org_mpijobs.yaml", // mpi-operator has it
		},
	},
	labels: "!slow && !redundant", // of `make test-integration-baseline`
}

var trainer = operator{
	module: "github.com/kubeflow/trainer/v2", version: "v2.2.0",
	packages: []string{"test/integration/controller", "test/integration/webhooks"},
	makes: []made{
		{dir: "manifests/external-crds/jobset-operator", module: "sigs.k8s.io/jobset", from: "config/components/crd/bases"},
		{
			dir: "manifests/external-crds/scheduler-plugins", module: "sigs.k8s.io/scheduler-plugins",
			from: "manifests/coscheduling",
		},
		{dir: "manifests/external-crds/volcano", types: "volcano.sh/apis/pkg/apis/scheduling/v1beta1"},
	},
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
	name := path.Base(s.operator.module)
	if is, _ := path.Match("v[0-9]", name); is { // its major version
		name = path.Base(path.Dir(s.operator.module))
	}
	if strings.HasPrefix(s.operator.module, "github.com/fluxcd/pkg/") && name != "ssa" {
		name = "fluxcd " + name
	}
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
