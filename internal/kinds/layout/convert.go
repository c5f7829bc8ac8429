package layout

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// The functions here are what kubernetes pkg/apis/*/v1…/conversion.go do on the way from an older version to
// the one served. They change content in place.

// subjects gives the subjects of a binding in rbac.authorization.k8s.io/v1alpha1 a group instead of a version.
func subjects(content tree.Object) {
	for subject := range tree.Items(content, "subjects") {
		group, kind := "rbac.authorization.k8s.io", tree.Text(subject, "kind")
		switch kind {
		case "ServiceAccount":
			group = ""
		case "User":
			if tree.Text(subject, "name") == "*" {
				subject["kind"], subject["name"] = "Group", "system:authenticated"
			}
		case "Group":
		default:
			group = groupOf(tree.Text(subject, "apiVersion"))
		}
		delete(subject, "apiVersion")
		if group != "" {
			subject["apiGroup"] = group
		}
	}
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// emptySelector is the key by which one of policy/v1 says what an empty selector of v1beta1 means: no pods.
const emptySelector = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// budget gives a disruption budget in policy/v1beta1 the selector that selects the same in v1.
func budget(content tree.Object) {
	spec := tree.Child(content, "spec")
	selector, is := spec["selector"].(tree.Object)
	if !is {
		return
	}
	if len(selector) == 0 {
		spec["selector"] = tree.Object{"matchExpressions": []any{tree.Object{"key": emptySelector, "operator": "Exists"}}}
		return
	}
	given, _ := selector["matchExpressions"].([]any)
	left := slices.DeleteFunc(slices.Clone(given), func(item any) bool {
		expression, is := item.(tree.Object)
		return is && tree.Text(expression, "key") == emptySelector
	})
	if delete(selector, "matchExpressions"); len(left) > 0 {
		selector["matchExpressions"] = left
	}
}

// deployment moves rollbackTo into an annotation.
func deployment(content tree.Object) {
	spec := tree.Child(content, "spec")
	if to, is := spec["rollbackTo"].(tree.Object); is {
		revision, _ := to["revision"].(int64)
		annotate(content, "deprecated.deployment.rollback.to", revision)
	}
	delete(spec, "rollbackTo")
}

// daemonSet moves templateGeneration into an annotation.
func daemonSet(content tree.Object) {
	spec := tree.Child(content, "spec")
	generation, _ := spec["templateGeneration"].(int64)
	annotate(content, templateGeneration, generation)
	delete(spec, "templateGeneration")
}

// templateGeneration is an annotation that upstream's conversion gives every daemon set.
const templateGeneration = "deprecated.daemonset.template.generation"

// assuredShares gives the shares of a priority level in flowcontrol.apiserver.k8s.io/v1beta1 or v1beta2 their later name;
// there, 0 means the default.
func assuredShares(content tree.Object) {
	limited := tree.Child(content, "spec", "limited")
	if shares, _ := limited["assuredConcurrencyShares"].(int64); shares != 0 {
		limited["nominalConcurrencyShares"] = shares
	}
	delete(limited, "assuredConcurrencyShares")
}

// nominalShares removes the annotation by which a priority level in flowcontrol.apiserver.k8s.io/v1beta3 says that 0 is not
// the default.
func nominalShares(content tree.Object) {
	limited, annotations := tree.Child(content, "spec", "limited"), tree.Child(content, "metadata", "annotations")
	_, zero := annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]
	if shares, _ := limited["nominalConcurrencyShares"].(int64); shares == 0 && limited != nil {
		if delete(limited, "nominalConcurrencyShares"); zero {
			limited["nominalConcurrencyShares"] = int64(0)
		}
	}
	delete(annotations, flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey)
}

// finishing returns what a kind's objects get, or keep, when they are read from etcd, besides the defaults.
// Definitions have defaults here that upstream fills in when an object is written, by the strategy: these must not
// appear in an object that was stored without them.
func finishing(r *kinds.Resource) func(content tree.Object, fill func()) {
	switch {
	case r.IsDefinition():
		return func(content tree.Object, fill func()) { keeping(content, "status", "storedVersions", fill) }
	case r.Group == "" && r.Kind == "Service":
		return func(content tree.Object, fill func()) {
			fill()
			if spec := tree.Child(content, "spec"); spec["type"] == "ExternalName" {
				delete(spec, "internalTrafficPolicy") // upstream hides it
			}
		}
	case r.Group == "apps" && r.Kind == "DaemonSet":
		return func(content tree.Object, fill func()) {
			fill()
			tree.Set(tree.Made(content, "metadata", "annotations"), templateGeneration, "0")
		}
	}
	return func(_ tree.Object, fill func()) { fill() }
}

// keeping calls fill, which does not change one member of a part of an object.
func keeping(content tree.Object, part, member string, fill func()) {
	was, had := tree.Child(content, part)[member]
	fill()
	if now := tree.Child(content, part); had {
		now[member] = was
	} else {
		delete(now, member)
	}
}

func annotate(content tree.Object, name string, value int64) {
	if annotations := tree.Made(content, "metadata", "annotations"); annotations != nil {
		annotations[name] = strconv.FormatInt(value, 10)
	}
}

// ingress gives the backends of an ingress in v1beta1 the form of v1.
func ingress(content tree.Object) {
	spec := tree.Child(content, "spec")
	if backend, is := spec["backend"].(tree.Object); is {
		delete(spec, "backend")
		ingressBackend(backend)
		spec["defaultBackend"] = backend
	}
	for rule := range tree.Items(spec, "rules") {
		for path := range tree.Items(tree.Child(rule, "http"), "paths") {
			ingressBackend(tree.Child(path, "backend"))
			tree.Set(path, "pathType", "ImplementationSpecific") // the default of v1beta1
		}
	}
}

func ingressBackend(backend tree.Object) {
	name, port := tree.Text(backend, "serviceName"), backend["servicePort"]
	delete(backend, "serviceName")
	delete(backend, "servicePort")
	service := tree.Object{"name": name, "port": tree.Object{}}
	switch port := port.(type) {
	case string:
		service["port"] = tree.Object{"name": port}
	case int64:
		if port != 0 {
			service["port"] = tree.Object{"number": port}
		} else if name == "" {
			return
		}
	default:
		if name == "" {
			return
		}
	}
	backend["service"] = service
}

// endpoints gives the endpoints of a slice in discovery.k8s.io/v1beta1 a zone, and the rest of their
// topology another name.
func endpoints(content tree.Object) {
	const zoneLabel, hostLabel = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
	for endpoint := range tree.Items(content, "endpoints") {
		given, is := endpoint["topology"].(tree.Object)
		if !is {
			continue
		}
		delete(endpoint, "topology")
		left := maps.Clone(given)
		if zone, has := left[zoneLabel]; has {
			endpoint["zone"] = zone
			delete(left, zoneLabel)
		}
		if host, has := left[hostLabel]; has && host == endpoint["nodeName"] {
			delete(left, hostLabel)
		}
		if len(left) > 0 {
			endpoint["deprecatedTopology"] = left
		}
	}
}

// runtimeClass moves up the members of the spec that a class has in node.k8s.io/v1alpha1.
func runtimeClass(content tree.Object) {
	spec := tree.Child(content, "spec")
	delete(content, "spec")
	content["handler"] = tree.Text(spec, "runtimeHandler")
	for _, name := range []string{"overhead", "scheduling"} {
		if value, has := spec[name]; has {
			content[name] = value
		}
	}
}

// signingRequest names the signer that a request of certificates.k8s.io/v1beta1 had before signers had names.
func signingRequest(content tree.Object) {
	tree.Set(tree.Child(content, "spec"), "signerName", "kubernetes.io/legacy-unknown")
}

// claim gives the requests of a claim in resource.k8s.io/v1beta1 the form of v1.
func claim(content tree.Object) { deviceRequests(tree.Child(content, "spec")) }

// claimTemplate is claim for a template.
func claimTemplate(content tree.Object) { deviceRequests(tree.Child(content, "spec", "spec")) }

// exactly are the members of a request that v1 has in a member "exactly".
func exactly() []string {
	return []string{
		"deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
		"derivedAttributes",
	}
}

func deviceRequests(spec tree.Object) {
	for request := range tree.Items(tree.Child(spec, "devices"), "requests") {
		exact := tree.Object{}
		for _, name := range exactly() {
			if value, has := request[name]; has {
				delete(request, name)
				if value != "" { // deviceClassName is always written
					exact[name] = value
				}
			}
		}
		if len(exact) > 0 {
			request["exactly"] = exact
		}
	}
}

// slice moves up what the devices of a slice in resource.k8s.io/v1beta1 have in a member "basic".
func slice(content tree.Object) {
	for device := range tree.Items(tree.Child(content, "spec"), "devices") {
		basic, is := device["basic"].(tree.Object)
		if !is {
			continue
		}
		delete(device, "basic")
		maps.Copy(device, basic)
	}
}
