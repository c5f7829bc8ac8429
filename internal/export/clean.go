package export

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
)

// Why an object is left out.
const (
	byStart      = "objects that each start of a server creates"
	byController = "objects that belong to a controller"
	ofCluster    = "tokens of service accounts"
	inDeletion   = "objects that are being deleted"
	undefined    = "resources that were not defined then"
)

// transient reports whether a resource has objects that come and go by themselves.
func transient(r client.Resource) bool {
	switch r.GroupResource().String() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
		return true
	}
	return false
}

// view reports whether a resource shows the objects of another one, which is exported.
func view(r client.Resource) bool {
	return r.GroupResource().String() == "events.events.k8s.io" || r.Group == "extensions"
}

// clean removes from an object what the server writes, and what names something that
// another server does not have. It returns why the object is left out, "" if it is not.
func (o Options) clean(r client.Resource, tree map[string]any) (why string) {
	meta, _ := tree["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	if meta["deletionTimestamp"] != nil {
		return inDeletion
	}
	if controlled(meta) && !o.All {
		return byController
	}
	for _, name := range []string{
		"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "generateName",
		"ownerReferences", // they have the uid of the owner
	} {
		delete(meta, name)
	}
	if !o.Status {
		delete(tree, "status")
	}
	name, _ := meta["name"].(string)
	switch r.GroupResource().String() {
	case "namespaces":
		cleanNamespace(tree, meta, name)
		if !o.All && firstNamespace(name) && bare(tree, meta) {
			return byStart
		}
	case "serviceaccounts":
		if !o.All && name == "default" && bare(tree, meta) {
			return byStart
		}
	case "secrets":
		if !o.All && tree["type"] == string(corev1.SecretTypeServiceAccountToken) {
			return ofCluster
		}
	case "ipaddresses.networking.k8s.io":
		if labels, _ := meta["labels"].(map[string]any); labels[networkingv1.LabelManagedBy] == "ipallocator.k8s.io" {
			return byController // they are made with the Services, which could not be created beside them
		}
	case "clusterroles.rbac.authorization.k8s.io":
		if tree["aggregationRule"] != nil {
			delete(tree, "rules") // a controller writes them
		}
	}
	if !o.All && r.GroupResource().String() == "services" {
		cleanService(tree)
	}
	if !o.All && (madeByStart(r, meta) || labelled(r, meta)) {
		return byStart
	}
	return ""
}

// cleanService removes the addresses that a Service has been given: another server has other ranges.
func cleanService(tree map[string]any) {
	spec, _ := tree["spec"].(map[string]any)
	if ip := spec["clusterIP"]; ip == nil || ip == corev1.ClusterIPNone {
		return
	}
	for _, name := range []string{"clusterIP", "clusterIPs", "ipFamilies"} {
		delete(spec, name)
	}
}

// madeByStart reports whether each start of a server creates an object, whatever else is in it.
func madeByStart(r client.Resource, meta map[string]any) bool {
	name, namespace := meta["name"], meta["namespace"]
	switch r.GroupResource().String() {
	case "configmaps":
		return name == "kube-root-ca.crt" ||
			name == "extension-apiserver-authentication" && namespace == metav1.NamespaceSystem
	case "services", "endpoints", "endpointslices.discovery.k8s.io":
		return name == "kubernetes" && namespace == corev1.NamespaceDefault
	case "servicecidrs.networking.k8s.io":
		return name == "kubernetes"
	case "priorityclasses.scheduling.k8s.io":
		text, _ := name.(string)
		return strings.HasPrefix(text, "system-") // nobody else may have such names
	case "flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io":
		annotations, _ := meta["annotations"].(map[string]any)
		return annotations[flowcontrolv1.AutoUpdateAnnotationKey] == "true" // those of users are deleted
	}
	return false
}

// labelled reports whether an object has the label of those of its group that each start creates.
func labelled(r client.Resource, meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	switch r.Group {
	case "rbac.authorization.k8s.io":
		return labels["kubernetes.io/bootstrapping"] != nil
	case "apiregistration.k8s.io":
		return labels["kube-aggregator.kubernetes.io/automanaged"] != nil
	}
	return false
}

// controlled reports whether a controller made an object, and would make it again.
func controlled(meta map[string]any) bool {
	owners, _ := meta["ownerReferences"].([]any)
	return slices.ContainsFunc(owners, func(owner any) bool {
		o, _ := owner.(map[string]any)
		return o["controller"] == true
	})
}

// cleanNamespace removes the label and the finalizer that every namespace gets.
func cleanNamespace(tree, meta map[string]any, name string) {
	labels, _ := meta["labels"].(map[string]any)
	if labels[corev1.LabelMetadataName] == name {
		if delete(labels, corev1.LabelMetadataName); len(labels) == 0 {
			delete(meta, "labels")
		}
	}
	spec, _ := tree["spec"].(map[string]any)
	finalizers, _ := spec["finalizers"].([]any)
	if len(finalizers) == 1 && finalizers[0] == string(corev1.FinalizerKubernetes) {
		if delete(spec, "finalizers"); len(spec) == 0 {
			delete(tree, "spec")
		}
	}
}

// firstNamespace reports whether every server has a namespace.
func firstNamespace(name string) bool {
	return slices.Contains([]string{
		metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
	}, name)
}

// bare reports whether an object has only its name and its place.
func bare(tree, meta map[string]any) bool {
	for name := range tree {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			return false
		}
	}
	for name := range meta {
		if name != "name" && name != "namespace" {
			return false
		}
	}
	return true
}
