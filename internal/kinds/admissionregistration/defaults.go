package defaults

// Defaults as of pkg/apis/admissionregistration/v1/defaults.go of Kubernetes 1.37.

// MutatingWebhooks fills in the defaults of a configuration of mutating webhooks.
func MutatingWebhooks(o tree) {
	for hook := range items(o, "webhooks") {
		webhook(hook)
		setPointer(hook, "reinvocationPolicy", "Never")
	}
}

// ValidatingWebhooks fills in the defaults of a configuration of validating webhooks.
func ValidatingWebhooks(o tree) {
	for hook := range items(o, "webhooks") {
		webhook(hook)
	}
}

func webhook(hook tree) {
	setPointer(hook, "failurePolicy", "Fail")
	matching(hook)
	setPointer(hook, "timeoutSeconds", int64(10))
	setPointer(child(child(hook, "clientConfig"), "service"), "port", int64(443))
	scopes(hook, "rules")
}

// matching fills in how what a webhook, a policy or a binding is about is matched.
func matching(o tree) {
	setPointer(o, "matchPolicy", "Equivalent")
	made(o, "namespaceSelector")
	made(o, "objectSelector")
}

// scopes fills in the scope of each rule of a list.
func scopes(o tree, list string) {
	for rule := range items(o, list) {
		setPointer(rule, "scope", "*")
	}
}

func matchResources(o tree) {
	if o == nil {
		return
	}
	matching(o)
	scopes(o, "resourceRules")
	scopes(o, "excludeResourceRules")
}

// AdmissionPolicy fills in the defaults of a policy, validating or mutating.
func AdmissionPolicy(o tree) {
	spec := made(o, "spec")
	setPointer(spec, "failurePolicy", "Fail")
	matchResources(child(spec, "matchConstraints"))
}

// AdmissionBinding fills in the defaults of a binding of a policy, validating or mutating.
func AdmissionBinding(o tree) { matchResources(child(child(o, "spec"), "matchResources")) }
