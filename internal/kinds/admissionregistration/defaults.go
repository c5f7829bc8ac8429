package admissionregistration

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/admissionregistration/v1/defaults.go of Kubernetes 1.37.

// defaultMutatingWebhooks fills in the defaults of a configuration of mutating webhooks.
func defaultMutatingWebhooks(o tree.Object) {
	for hook := range tree.Items(o, "webhooks") {
		defaultWebhook(hook)
		tree.SetPointer(hook, "reinvocationPolicy", "Never")
	}
}

// defaultValidatingWebhooks fills in the defaults of a configuration of validating webhooks.
func defaultValidatingWebhooks(o tree.Object) {
	for hook := range tree.Items(o, "webhooks") {
		defaultWebhook(hook)
	}
}

func defaultWebhook(hook tree.Object) {
	tree.SetPointer(hook, "failurePolicy", "Fail")
	matching(hook)
	tree.SetPointer(hook, "timeoutSeconds", int64(10))
	tree.SetPointer(tree.Child(hook, "clientConfig", "service"), "port", int64(443))
	scopes(hook, "rules")
}

// matching fills in how what a webhook, a policy or a binding is about is matched.
func matching(o tree.Object) {
	tree.SetPointer(o, "matchPolicy", "Equivalent")
	tree.Made(o, "namespaceSelector")
	tree.Made(o, "objectSelector")
}

// scopes fills in the scope of each rule of a list.
func scopes(o tree.Object, list string) {
	for rule := range tree.Items(o, list) {
		tree.SetPointer(rule, "scope", "*")
	}
}

func matchResources(o tree.Object) {
	if o == nil {
		return
	}
	matching(o)
	scopes(o, "resourceRules")
	scopes(o, "excludeResourceRules")
}

// defaultPolicy fills in the defaults of a policy, validating or mutating.
func defaultPolicy(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.SetPointer(spec, "failurePolicy", "Fail")
	matchResources(tree.Child(spec, "matchConstraints"))
}

// defaultBinding fills in the defaults of a binding of a policy, validating or mutating.
func defaultBinding(o tree.Object) { matchResources(tree.Child(o, "spec", "matchResources")) }
