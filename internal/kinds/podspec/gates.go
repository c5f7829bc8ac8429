package defaults

// gated removes from the spec of a pod the fields that are behind feature gates which are
// off by default in Kubernetes 1.37, as upstream's strategies do.
func gated(spec tree) {
	if spec == nil {
		return
	}
	delete(spec, "evictionResponders")
	delete(spec, "schedulingGroup")
	for v := range items(spec, "volumes") {
		if dir := child(v, "emptyDir"); dir != nil {
			delete(dir, "mode")
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for c := range items(spec, list) {
			for mount := range items(c, "volumeMounts") {
				delete(mount, "bindMountOptions")
			}
			for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
				ungate(child(c, name))
			}
			lifecycle := child(c, "lifecycle")
			ungate(child(lifecycle, "postStart"))
			ungate(child(lifecycle, "preStop"))
		}
	}
}

// ungate removes the protocol of a request of HTTP.
func ungate(handler tree) {
	if get := child(handler, "httpGet"); get != nil {
		delete(get, "protocol")
	}
}

// Template removes gated fields from the pod template of a workload.
func Template(u, _ tree) error {
	gated(child(child(child(u, "spec"), "template"), "spec"))
	return nil
}

// TemplateOnly removes gated fields from a pod template that is an object of its own.
func TemplateOnly(u, _ tree) error {
	gated(child(child(u, "template"), "spec"))
	return nil
}

// JobTemplate removes gated fields from the job template of a cron job.
func JobTemplate(u, _ tree) error {
	if job := child(child(child(u, "spec"), "jobTemplate"), "spec"); job != nil {
		delete(job, "scheduling")
		gated(child(child(job, "template"), "spec"))
	}
	return nil
}

// Lease removes the gated fields of a lease: how a leader is elected.
func Lease(u, _ tree) error {
	if spec := child(u, "spec"); spec != nil {
		delete(spec, "preferredHolder")
		delete(spec, "strategy")
	}
	return nil
}

// NodeConfig removes the gated fields of a node, and its dynamic configuration, which
// never was more than a beta.
func NodeConfig(u, old tree) error {
	if spec := child(u, "spec"); spec != nil {
		delete(spec, "configSource")
		delete(spec, "podPreemptionPolicy")
	}
	if status := child(u, "status"); old == nil && status != nil {
		delete(status, "config")
	}
	return nil
}

// SecretNames keeps of a service account's references to secrets their names only.
func SecretNames(u, _ tree) error {
	list, _ := u["secrets"].([]any)
	for i, item := range list {
		if ref, is := item.(tree); is {
			name := tree{}
			set(name, "name", ref["name"])
			list[i] = name
		}
	}
	return nil
}
