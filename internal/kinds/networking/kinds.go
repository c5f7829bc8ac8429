package builtin

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/cluster"
	"github.com/gapless-io/gapless/internal/kinds/builtin/warnings"
	"github.com/gapless-io/gapless/internal/kinds/custom"
)

func storageKinds() []*kinds.Resource {
	return []*kinds.Resource{
		kind(row{
			version: "v1", kind: "PersistentVolume", short: []string{"pv"}, cluster: true, status: true,
			returnDeleted: true, defaults: defaults.Volume,
		}, rules[*corev1.PersistentVolume]{
			object: validation.PersistentVolume, update: validation.PersistentVolumeUpdate, warn: warnings.PersistentVolume,
		}),
		kind(row{
			version: "v1", kind: "PersistentVolumeClaim", short: []string{"pvc"}, status: true,
			returnDeleted: true, defaults: defaults.Claim,
		}, rules[*corev1.PersistentVolumeClaim]{
			object: validation.PersistentVolumeClaim, update: validation.PersistentVolumeClaimUpdate, warn: warnings.PersistentVolumeClaim,
		}),
		kind(row{
			group: "storage.k8s.io", version: "v1", kind: "StorageClass", plural: "storageclasses",
			short: []string{"sc"}, cluster: true, returnDeleted: true, defaults: defaults.StorageClass,
		}, rules[*storagev1.StorageClass]{object: validation.StorageClass, update: validation.StorageClassUpdate, warn: warnings.StorageClass}),
		kind(row{
			group: "storage.k8s.io", version: "v1", kind: "VolumeAttributesClass", plural: "volumeattributesclasses",
			short: []string{"vac"}, cluster: true, returnDeleted: true,
		}, rules[*storagev1.VolumeAttributesClass]{object: cluster.VolumeAttributesClass, update: cluster.VolumeAttributesClassUpdate}),
	}
}

func networkKinds() []*kinds.Resource {
	const group = "networking.k8s.io"
	return []*kinds.Resource{
		kind(row{
			group: "coordination.k8s.io", version: "v1", kind: "Lease", createOnUpdate: true, needsVersion: true,
		}, rules[*coordinationv1.Lease]{object: validation.Lease}),
		kind(row{
			group: "discovery.k8s.io", version: "v1", kind: "EndpointSlice", defaults: defaults.EndpointSlice,
		}, rules[*discoveryv1.EndpointSlice]{
			object: validation.EndpointSlice, create: validation.NewEndpointSlice, update: validation.EndpointSliceUpdate, warn: warnings.EndpointSlice,
		}),
		kind(row{
			group: group, version: "v1", kind: "Ingress", plural: "ingresses", short: []string{"ing"}, status: true,
		}, rules[*networkingv1.Ingress]{
			object: validation.Ingress, status: validation.IngressStatus, warn: warnings.Ingress, warnStatus: warnings.IngressStatus,
		}),
		kind(row{
			group: group, version: "v1", kind: "IngressClass", plural: "ingressclasses", cluster: true,
			defaults: defaults.IngressClass,
		}, rules[*networkingv1.IngressClass]{object: validation.IngressClass, update: validation.IngressClassUpdate}),
		kind(row{
			group: group, version: "v1", kind: "IPAddress", plural: "ipaddresses", short: []string{"ip"}, cluster: true,
			name: cluster.AddressName,
		}, rules[*networkingv1.IPAddress]{object: cluster.IPAddress, update: cluster.IPAddressUpdate}),
		kind(row{
			group: group, version: "v1", kind: "ServiceCIDR", cluster: true, status: true,
		}, rules[*networkingv1.ServiceCIDR]{create: cluster.NewServiceCIDR, update: cluster.ServiceCIDRUpdate}),
		kind(row{
			group: group, version: "v1", kind: "NetworkPolicy", plural: "networkpolicies", short: []string{"netpol"},
			defaults: defaults.NetworkPolicy,
		}, rules[*networkingv1.NetworkPolicy]{
			create: validation.NewNetworkPolicy, update: validation.NetworkPolicyUpdate, warn: warnings.NetworkPolicy,
		}),
	}
}

func crdKinds() []*kinds.Resource {
	// The name rule (plural.group) is part of the definition's own validation.
	anyName := func(string) []string { return nil }
	return []*kinds.Resource{
		kind(row{
			group: "apiextensions.k8s.io", version: "v1", kind: "CustomResourceDefinition",
			short: []string{"crd", "crds"}, categories: []string{"api-extensions"}, cluster: true, status: true,
			needsVersion: true, name: anyName, defaults: custom.DefaultDefinition,
		}, rules[*apiextensionsv1.CustomResourceDefinition]{
			create: custom.CheckDefinition, update: custom.CheckDefinitionUpdate, warn: custom.DefinitionWarnings,
		}),
	}
}
