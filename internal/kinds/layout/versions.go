package layout

import (
	"fmt"
	"slices"

	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// other is a version of a built-in kind that this server does not serve.
type other struct {
	gokind.Form

	group   string            // of the kind now; "": the version's
	convert func(tree.Object) // changes what has another form in the version served; nil: nothing has
	// stored says that kube-apiserver 1.37 writes this version: the one served is new in 1.37, and 1.36 has to
	// read what 1.37 writes (kubernetes pkg/kubeapiserver NewStorageFactoryConfigEffectiveVersion).
	stored bool
	keep   func(now, before []byte) ([]byte, error) // see codec
}

// of is a version with the same fields as the one that is served, or with more.
func of[T any, P gokind.Object[T]](apiVersion, kind string) other {
	return other{Form: gokind.FormOf[T, P](schema.FromAPIVersionAndKind(apiVersion, kind))}
}

func (o other) asStored() other { o.stored = true; return o }

func (o other) converted(convert func(tree.Object)) other { o.convert = convert; return o }

func (o other) keeping(keep func(now, before []byte) ([]byte, error)) other { o.keep = keep; return o }

func (o other) in(group string) other { o.group = group; return o }

// others are the versions of the kinds served that k8s.io/api still has. kube-apiserver 1.37 reads the same
// ones.
func others() []other {
	return slices.Concat(policies(), workloads(), network(), flow(), devices(), cluster())
}

func policies() []other {
	const admission, rbac = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
	return []other{
		of[admissionv1beta1.MutatingAdmissionPolicy](admission+"/v1beta1", "MutatingAdmissionPolicy"),
		of[admissionv1beta1.MutatingAdmissionPolicyBinding](admission+"/v1beta1", "MutatingAdmissionPolicyBinding"),
		of[admissionv1beta1.MutatingWebhookConfiguration](admission+"/v1beta1", "MutatingWebhookConfiguration"),
		of[admissionv1beta1.ValidatingAdmissionPolicy](admission+"/v1beta1", "ValidatingAdmissionPolicy"),
		of[admissionv1beta1.ValidatingAdmissionPolicyBinding](admission+"/v1beta1", "ValidatingAdmissionPolicyBinding"),
		of[admissionv1beta1.ValidatingWebhookConfiguration](admission+"/v1beta1", "ValidatingWebhookConfiguration"),
		of[admissionv1alpha1.MutatingAdmissionPolicy](admission+"/v1alpha1", "MutatingAdmissionPolicy"),
		of[admissionv1alpha1.MutatingAdmissionPolicyBinding](admission+"/v1alpha1", "MutatingAdmissionPolicyBinding"),
		of[admissionv1alpha1.ValidatingAdmissionPolicy](admission+"/v1alpha1", "ValidatingAdmissionPolicy"),
		of[admissionv1alpha1.ValidatingAdmissionPolicyBinding](admission+"/v1alpha1", "ValidatingAdmissionPolicyBinding"),
		of[rbacv1beta1.ClusterRole](rbac+"/v1beta1", "ClusterRole"),
		of[rbacv1beta1.ClusterRoleBinding](rbac+"/v1beta1", "ClusterRoleBinding"),
		of[rbacv1beta1.Role](rbac+"/v1beta1", "Role"),
		of[rbacv1beta1.RoleBinding](rbac+"/v1beta1", "RoleBinding"),
		of[rbacv1alpha1.ClusterRole](rbac+"/v1alpha1", "ClusterRole"),
		of[rbacv1alpha1.ClusterRoleBinding](rbac+"/v1alpha1", "ClusterRoleBinding").converted(subjects),
		of[rbacv1alpha1.Role](rbac+"/v1alpha1", "Role"),
		of[rbacv1alpha1.RoleBinding](rbac+"/v1alpha1", "RoleBinding").converted(subjects),
		of[policyv1beta1.PodDisruptionBudget]("policy/v1beta1", "PodDisruptionBudget").converted(budget),
	}
}

func workloads() []other {
	return []other{
		of[appsv1beta1.ControllerRevision]("apps/v1beta1", "ControllerRevision"),
		of[appsv1beta1.Deployment]("apps/v1beta1", "Deployment").converted(deployment),
		of[appsv1beta1.StatefulSet]("apps/v1beta1", "StatefulSet"),
		of[appsv1beta2.ControllerRevision]("apps/v1beta2", "ControllerRevision"),
		of[appsv1beta2.DaemonSet]("apps/v1beta2", "DaemonSet"),
		of[appsv1beta2.Deployment]("apps/v1beta2", "Deployment"),
		of[appsv1beta2.ReplicaSet]("apps/v1beta2", "ReplicaSet"),
		of[appsv1beta2.StatefulSet]("apps/v1beta2", "StatefulSet"),
		of[extensionsv1beta1.DaemonSet]("extensions/v1beta1", "DaemonSet").in("apps").converted(daemonSet),
		of[extensionsv1beta1.Deployment]("extensions/v1beta1", "Deployment").in("apps").converted(deployment),
		of[extensionsv1beta1.ReplicaSet]("extensions/v1beta1", "ReplicaSet").in("apps"),
		of[batchv1beta1.CronJob]("batch/v1beta1", "CronJob"),
	}
}

func network() []other {
	const group = "networking.k8s.io"
	return []other{
		of[networkingv1beta1.IPAddress](group+"/v1beta1", "IPAddress"),
		of[networkingv1beta1.Ingress](group+"/v1beta1", "Ingress").converted(ingress),
		of[networkingv1beta1.IngressClass](group+"/v1beta1", "IngressClass"),
		of[networkingv1beta1.ServiceCIDR](group+"/v1beta1", "ServiceCIDR"),
		of[extensionsv1beta1.Ingress]("extensions/v1beta1", "Ingress").in(group).converted(ingress),
		of[extensionsv1beta1.NetworkPolicy]("extensions/v1beta1", "NetworkPolicy").in(group),
		of[discoveryv1beta1.EndpointSlice]("discovery.k8s.io/v1beta1", "EndpointSlice").converted(endpoints),
	}
}

func flow() []other {
	const group, schema, level = flowcontrolv1beta1.GroupName, "FlowSchema", "PriorityLevelConfiguration"
	return []other{
		of[flowcontrolv1beta1.FlowSchema](group+"/v1beta1", schema),
		of[flowcontrolv1beta1.PriorityLevelConfiguration](group+"/v1beta1", level).converted(assuredShares),
		of[flowcontrolv1beta2.FlowSchema](group+"/v1beta2", schema),
		of[flowcontrolv1beta2.PriorityLevelConfiguration](group+"/v1beta2", level).converted(assuredShares),
		of[flowcontrolv1beta3.FlowSchema](group+"/v1beta3", schema),
		of[flowcontrolv1beta3.PriorityLevelConfiguration](group+"/v1beta3", level).converted(nominalShares),
	}
}

func devices() []other {
	const group = "resource.k8s.io"
	return []other{
		of[resourcev1beta1.DeviceClass](group+"/v1beta1", "DeviceClass"),
		of[resourcev1beta1.ResourceClaim](group+"/v1beta1", "ResourceClaim").converted(claim),
		of[resourcev1beta1.ResourceClaimTemplate](group+"/v1beta1", "ResourceClaimTemplate").converted(claimTemplate),
		of[resourcev1beta1.ResourceSlice](group+"/v1beta1", "ResourceSlice").converted(slice),
		of[resourcev1beta2.DeviceClass](group+"/v1beta2", "DeviceClass"),
		of[resourcev1beta2.DeviceTaintRule](group+"/v1beta2", "DeviceTaintRule").asStored(),
		of[resourcev1beta2.ResourceClaim](group+"/v1beta2", "ResourceClaim"),
		of[resourcev1beta2.ResourceClaimTemplate](group+"/v1beta2", "ResourceClaimTemplate"),
		of[resourcev1beta2.ResourceSlice](group+"/v1beta2", "ResourceSlice"),
		of[resourcev1alpha3.DeviceTaintRule](group+"/v1alpha3", "DeviceTaintRule"),
	}
}

func cluster() []other {
	const certificates, storage = "certificates.k8s.io", "storage.k8s.io"
	return []other{
		of[certificatesv1beta1.CertificateSigningRequest](certificates+"/v1beta1", "CertificateSigningRequest").
			converted(signingRequest),
		of[certificatesv1beta1.ClusterTrustBundle](certificates+"/v1beta1", "ClusterTrustBundle").asStored(),
		of[certificatesv1alpha1.ClusterTrustBundle](certificates+"/v1alpha1", "ClusterTrustBundle"),
		of[certificatesv1beta1.PodCertificateRequest](certificates+"/v1beta1", "PodCertificateRequest").asStored().
			keeping(keepRequest),
		of[coordinationv1beta1.Lease]("coordination.k8s.io/v1beta1", "Lease"),
		of[eventsv1beta1.Event]("events.k8s.io/v1beta1", "Event"),
		of[nodev1alpha1.RuntimeClass]("node.k8s.io/v1alpha1", "RuntimeClass").converted(runtimeClass),
		of[nodev1beta1.RuntimeClass]("node.k8s.io/v1beta1", "RuntimeClass"),
		of[schedulingv1beta1.PriorityClass]("scheduling.k8s.io/v1beta1", "PriorityClass"),
		of[storagev1beta1.CSIDriver](storage+"/v1beta1", "CSIDriver"),
		of[storagev1beta1.CSINode](storage+"/v1beta1", "CSINode"),
		of[storagev1beta1.CSIStorageCapacity](storage+"/v1beta1", "CSIStorageCapacity"),
		of[storagev1beta1.StorageClass](storage+"/v1beta1", "StorageClass"),
		of[storagev1beta1.VolumeAttachment](storage+"/v1beta1", "VolumeAttachment"),
		of[storagev1beta1.VolumeAttributesClass](storage+"/v1beta1", "VolumeAttributesClass"),
		of[storagev1alpha1.CSIStorageCapacity](storage+"/v1alpha1", "CSIStorageCapacity"),
		of[storagev1alpha1.VolumeAttachment](storage+"/v1alpha1", "VolumeAttachment"),
		of[storagev1alpha1.VolumeAttributesClass](storage+"/v1alpha1", "VolumeAttributesClass"),
		of[migrationv1beta1.StorageVersionMigration]("storagemigration.k8s.io/v1beta1", "StorageVersionMigration").asStored(),
	}
}

// codecOf returns what converts the values of a built-in resource.
func codecOf(catalog *kinds.Catalog, r *kinds.Resource, older []other) codec {
	own := typeMeta{r.APIVersion(), r.Kind}
	c := codec{resource: r, standard: own, versions: map[typeMeta]version{}, finish: finishing(r)}
	if r.IsDefinition() {
		c.encode, c.standard, c.versions = encodeDefinition, definitionStandard(), definitionVersions(r)
		return c
	}
	c.versions[own] = version{fromProtobuf: r.FromProtobuf, fromJSON: fromJSON(r), appendProtobuf: r.AppendProtobuf}
	c.encode = encoder(r.GVK(), r.Protobuf)
	if r.Group == aggregated {
		c.encode = encodeAPIService
	}
	served := []*kinds.Resource{r}
	for view := range catalog.All() {
		if view.Conversion == nil || view.Conversion.Of != r {
			continue
		}
		served = append(served, view)
		c.versions[typeMeta{view.APIVersion(), view.Kind}] = version{
			fromProtobuf: view.FromProtobuf, fromJSON: fromJSON(view),
			convert: func(content map[string]any) (map[string]any, error) { return view.Store(content), nil },
		}
	}
	for _, o := range older {
		for _, s := range served {
			if o.now() != s.GVK().GroupKind() {
				continue
			}
			apiVersion, kind := o.GVK.ToAPIVersionAndKind()
			meta := typeMeta{apiVersion, kind}
			if _, is := c.versions[meta]; !is {
				c.versions[meta] = version{fromProtobuf: o.FromProtobuf, fromJSON: o.FromJSON, convert: o.to(s)}
			}
			if o.stored {
				c.encode, c.standard, c.keep = encoder(o.GVK, o.Protobuf), meta, o.keep
			}
		}
	}
	return c
}

// now is the kind that the version is one of.
func (o other) now() schema.GroupKind {
	gk := o.GVK.GroupKind()
	if o.group != "" {
		gk.Group = o.group
	}
	return gk
}

// to returns what converts the version to the one served, and then to the one in which that is stored.
func (o other) to(r *kinds.Resource) func(content map[string]any) (map[string]any, error) {
	return func(content map[string]any) (map[string]any, error) {
		if o.convert != nil {
			o.convert(content)
		}
		content["apiVersion"] = r.APIVersion()
		// What the struct of the version served has, and what it always writes: fields of the other one are gone.
		body, err := wire.Canonical(content)
		if err != nil {
			return nil, err
		}
		u, _, err := r.Type.Decode(body, kinds.FieldsIgnore)
		if err != nil {
			return nil, fmt.Errorf("convert %s to %s: %w", o.GVK.GroupVersion(), r.Version, err)
		}
		return r.Store(u.Object), nil
	}
}

func fromJSON(r *kinds.Resource) func(object []byte) (map[string]any, error) {
	return func(object []byte) (map[string]any, error) {
		u, _, err := r.Type.Decode(object, kinds.FieldsIgnore)
		if err != nil {
			return nil, err
		}
		return u.Object, nil
	}
}

// encoder returns what makes the envelope of an object.
func encoder(gvk kinds.GroupVersionKind, protobuf func(object []byte) ([]byte, error)) func(value []byte) ([]byte, error) {
	head, err := header(gvk)
	return func(value []byte) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		message, err := protobuf(value)
		if err != nil {
			return nil, err
		}
		return seal(head, message), nil
	}
}
