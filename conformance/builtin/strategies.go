package builtin

import (
	apiextensionsinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	aggregatorinstall "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install" // registers its kinds, as the following do
	_ "k8s.io/kubernetes/pkg/apis/apps/install"                  // …
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"           // …
	_ "k8s.io/kubernetes/pkg/apis/batch/install"                 // …
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"          // …
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"          // …
	_ "k8s.io/kubernetes/pkg/apis/core/install"                  // …
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"             // …
	_ "k8s.io/kubernetes/pkg/apis/events/install"                // …
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"           // …
	_ "k8s.io/kubernetes/pkg/apis/networking/install"            // …
	_ "k8s.io/kubernetes/pkg/apis/node/install"                  // …
	_ "k8s.io/kubernetes/pkg/apis/policy/install"                // …
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"                  // …
	_ "k8s.io/kubernetes/pkg/apis/resource/install"              // …
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"            // …
	_ "k8s.io/kubernetes/pkg/apis/storage/install"               // …
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"      // …
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
	"k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"
	"k8s.io/utils/clock"
)

// writer is a strategy of kube-apiserver for whole objects.
type writer interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// kindOfUpstream is what writes one kind.
type kindOfUpstream struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	whole  writer
	parts  map[string]rest.RESTUpdateStrategy // by subresource
}

// kindsOfUpstream returns upstream's kinds, by group and plural.
func kindsOfUpstream() map[string]kindOfUpstream {
	kinds := map[string]kindOfUpstream{}
	add := func(resource string, whole writer, status rest.RESTUpdateStrategy) {
		k := kindOfUpstream{scheme: legacyscheme.Scheme, codecs: legacyscheme.Codecs, whole: whole}
		if status != nil {
			k.parts = map[string]rest.RESTUpdateStrategy{"status": status}
		}
		kinds[resource] = k
	}
	const admission = ".admissionregistration.k8s.io"
	add("mutatingwebhookconfigurations"+admission, mutatingwebhookconfiguration.Strategy, nil)
	add("validatingwebhookconfigurations"+admission, validatingwebhookconfiguration.Strategy, nil)
	policies := validatingadmissionpolicy.NewStrategy(nil, nothing{})
	add("validatingadmissionpolicies"+admission, policies, validatingadmissionpolicy.NewStatusStrategy(policies))
	add("validatingadmissionpolicybindings"+admission, validatingadmissionpolicybinding.NewStrategy(nil, nil, nothing{}), nil)
	add("mutatingadmissionpolicies"+admission, mutatingadmissionpolicy.NewStrategy(nil, nothing{}), nil)
	add("mutatingadmissionpolicybindings"+admission, mutatingadmissionpolicybinding.NewStrategy(nil, nil, nothing{}), nil)
	add("controllerrevisions.apps", controllerrevision.Strategy, nil)
	add("daemonsets.apps", daemonset.Strategy, daemonset.StatusStrategy)
	add("deployments.apps", deployment.Strategy, deployment.StatusStrategy)
	add("replicasets.apps", replicaset.Strategy, replicaset.StatusStrategy)
	add("statefulsets.apps", statefulset.Strategy, statefulset.StatusStrategy)
	add("horizontalpodautoscalers.autoscaling", horizontalpodautoscaler.Strategy, horizontalpodautoscaler.StatusStrategy)
	add("cronjobs.batch", cronjob.Strategy, cronjob.StatusStrategy)
	add("jobs.batch", job.Strategy, job.StatusStrategy)
	add("certificatesigningrequests.certificates.k8s.io", certificates.Strategy, certificates.StatusStrategy)
	add("leases.coordination.k8s.io", lease.Strategy, nil)
	add("configmaps", configmap.Strategy, nil)
	add("endpoints", endpoint.Strategy, nil)
	add("events", event.Strategy, nil)
	add("limitranges", limitrange.Strategy, nil)
	add("namespaces", namespace.Strategy, namespace.StatusStrategy)
	add("nodes", node.Strategy, node.StatusStrategy)
	add("persistentvolumes", persistentvolume.Strategy, persistentvolume.StatusStrategy)
	add("persistentvolumeclaims", persistentvolumeclaim.Strategy, persistentvolumeclaim.StatusStrategy)
	add("pods", pod.Strategy, pod.StatusStrategy)
	add("podtemplates", podtemplate.Strategy, nil)
	add("replicationcontrollers", replicationcontroller.Strategy, replicationcontroller.StatusStrategy)
	add("resourcequotas", resourcequota.Strategy, resourcequota.StatusStrategy)
	add("secrets", secret.Strategy, nil)
	add("services", service.Strategy, service.StatusStrategy)
	add("serviceaccounts", serviceaccount.Strategy, nil)
	add("endpointslices.discovery.k8s.io", endpointslice.Strategy, nil)
	add("flowschemas.flowcontrol.apiserver.k8s.io", flowschema.Strategy, flowschema.StatusStrategy)
	add("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
		prioritylevelconfiguration.Strategy, prioritylevelconfiguration.StatusStrategy)
	add("ingresses.networking.k8s.io", ingress.Strategy, ingress.StatusStrategy)
	add("ingressclasses.networking.k8s.io", ingressclass.Strategy, nil)
	add("networkpolicies.networking.k8s.io", networkpolicy.Strategy, nil)
	add("runtimeclasses.node.k8s.io", runtimeclass.Strategy, nil)
	add("poddisruptionbudgets.policy", poddisruptionbudget.Strategy, poddisruptionbudget.StatusStrategy)
	add("clusterroles.rbac.authorization.k8s.io", clusterrole.Strategy, nil)
	add("clusterrolebindings.rbac.authorization.k8s.io", clusterrolebinding.Strategy, nil)
	add("roles.rbac.authorization.k8s.io", role.Strategy, nil)
	add("rolebindings.rbac.authorization.k8s.io", rolebinding.Strategy, nil)
	add("priorityclasses.scheduling.k8s.io", priorityclass.Strategy, nil)
	add("csidrivers.storage.k8s.io", csidriver.Strategy, nil)
	add("csinodes.storage.k8s.io", csinode.Strategy, csinode.StatusStrategy)
	add("csistoragecapacities.storage.k8s.io", csistoragecapacity.Strategy, nil)
	add("volumeattributesclasses.storage.k8s.io", volumeattributesclass.Strategy, nil)
	add("storageversionmigrations.storagemigration.k8s.io", storagemigration.Strategy, storagemigration.StatusStrategy)
	add("servicecidrs.networking.k8s.io", servicecidr.Strategy, servicecidr.StatusStrategy)
	add("ipaddresses.networking.k8s.io", ipaddress.Strategy, nil)
	add("clustertrustbundles.certificates.k8s.io", clustertrustbundle.Strategy, nil)
	signed := podcertificaterequest.NewStrategy()
	add("podcertificaterequests.certificates.k8s.io",
		signed, podcertificaterequest.NewStatusStrategy(signed, allowed{}, clock.RealClock{}))
	add("deviceclasses.resource.k8s.io", deviceclass.Strategy, nil)
	add("devicetaintrules.resource.k8s.io", devicetaintrule.Strategy, devicetaintrule.StatusStrategy)
	claims := resourceclaim.NewStrategy(administrated{}, allowed{})
	add("resourceclaims.resource.k8s.io", claims, resourceclaim.NewStatusStrategy(claims))
	add("resourceclaimtemplates.resource.k8s.io", resourceclaimtemplate.NewStrategy(administrated{}), nil)
	add("resourceslices.resource.k8s.io", resourceslice.Strategy, nil)
	add("storageclasses.storage.k8s.io", storageclass.Strategy, nil)
	add("volumeattachments.storage.k8s.io", volumeattachment.Strategy, volumeattachment.StatusStrategy)
	add("events.events.k8s.io", event.Strategy, nil)
	kinds["namespaces"].parts["finalize"] = namespace.FinalizeStrategy
	kinds["pods"].parts["ephemeralcontainers"] = pod.EphemeralContainersStrategy
	kinds["pods"].parts["resize"] = pod.ResizeStrategy
	kinds["certificatesigningrequests.certificates.k8s.io"].parts["approval"] = certificates.ApprovalStrategy
	kinds["customresourcedefinitions.apiextensions.k8s.io"] = definitions()
	kinds["apiservices.apiregistration.k8s.io"] = apiServices()
	return kinds
}

// apiServices have a scheme of their own too.
func apiServices() kindOfUpstream {
	scheme := runtime.NewScheme()
	aggregatorinstall.Install(scheme)
	return kindOfUpstream{
		scheme: scheme, codecs: serializer.NewCodecFactory(scheme), whole: apiservice.NewStrategy(scheme),
		parts: map[string]rest.RESTUpdateStrategy{"status": apiservice.NewStatusStrategy(scheme)},
	}
}

// definitions are CustomResourceDefinitions, which have a scheme of their own.
func definitions() kindOfUpstream {
	scheme := runtime.NewScheme()
	apiextensionsinstall.Install(scheme)
	return kindOfUpstream{
		scheme: scheme, codecs: serializer.NewCodecFactory(scheme), whole: customresourcedefinition.NewStrategy(scheme),
		parts: map[string]rest.RESTUpdateStrategy{"status": customresourcedefinition.NewStatusStrategy(scheme)},
	}
}
