package nodes

import (
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/diff"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/wire"
)

// stored reads an object. Errors: 404 with upstream's text, in which a resource is singular, 500 if it cannot be read.
func stored[T any](of plugins.Cluster, gr kinds.GroupResource, singular string, key wire.Key) (*T, error) {
	if err := of.UnknownOf(gr, key.Namespace, key.Name); err != nil { // before the look
		return nil, wire.Internal(err)
	}
	o := of.Find(gr, key)
	if o == nil {
		return nil, wire.NotFound(kinds.GroupResource{Group: gr.Group, Resource: singular}, key.Name)
	}
	read := new(T)
	if err := json.Unmarshal(o.JSON(), read); err != nil {
		return nil, wire.Internal(err)
	}
	return read, nil
}

// podOf reads a pod.
func (k kubelet) podOf(namespace, name string) (*corev1.Pod, error) {
	return stored[corev1.Pod](k.Cluster, pods, "pod", wire.Key{Namespace: namespace, Name: name})
}

func (k kubelet) pod(w *plugins.Write) error {
	switch subresource := w.GetSubresource(); subresource {
	case "":
		switch w.GetOperation() {
		case upstream.Create:
			return k.mirror(w)
		case upstream.Delete:
			of, err := k.podOf(w.GetNamespace(), w.GetName())
			if err != nil {
				return err
			}
			if of.Spec.NodeName != k.node {
				return refuse(w, "node %q can only delete pods with spec.nodeName set to itself", k.node)
			}
			return nil
		case upstream.Update, upstream.Connect:
		}
		return refuse(w, "unexpected operation %q, node %q can only create and delete mirror pods", w.GetOperation(), k.node)
	case "status":
		return k.podStatus(w)
	case "eviction":
		return k.eviction(w)
	default:
		return refuse(w, "unexpected pod subresource %q, only 'status' and 'eviction' are allowed", subresource)
	}
}

// mirror looks at a pod that a kubelet creates.
func (k kubelet) mirror(w *plugins.Write) error {
	var pod corev1.Pod
	if err := plugins.As(w.Object, &pod); err != nil {
		return err
	}
	if _, is := pod.Annotations[corev1.MirrorPodAnnotationKey]; !is {
		return refuse(w, "pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey,
			k.node)
	}
	if pod.Spec.NodeName != k.node {
		return refuse(w, "node %q can only create pods with spec.nodeName set to itself", k.node)
	}
	if len(pod.OwnerReferences) > 1 {
		return refuse(w, "node %q can only create pods with a single owner reference set to itself", k.node)
	}
	if len(pod.OwnerReferences) == 0 {
		return refuse(w, "node %q can only create pods with an owner reference set to itself", k.node)
	}
	switch owner := pod.OwnerReferences[0]; {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != k.node:
		return refuse(w, "node %q can only create pods with an owner reference set to itself", k.node)
	case owner.Controller == nil || !*owner.Controller:
		return refuse(w, "node %q can only create pods with a controller owner reference set to itself", k.node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return refuse(w, "node %q must not set blockOwnerDeletion on an owner reference", k.node)
	default:
		node, err := stored[corev1.Node](k.Cluster, nodes, "node", wire.Key{Name: k.node})
		if err != nil {
			return err
		}
		if owner.UID != node.UID {
			return refuse(w, "node %s UID mismatch: expected %s got %s", k.node, owner.UID, node.UID)
		}
	}
	what, err := refersTo(&pod.Spec)
	if err != nil {
		return refuse(w, "error checking mirror pod for API references: %w", err)
	}
	if what != "" {
		return refuse(w, "node %q can not create pods that reference %s", k.node, what)
	}
	return nil
}

// refersTo returns the resource of an API object to which a pod refers, "" if it refers to none
// (pkg/api/pod HasAPIObjectReference).
func refersTo(spec *corev1.PodSpec) (string, error) {
	if spec.ServiceAccountName != "" {
		return "serviceaccounts", nil
	}
	for range podspec.Secrets(spec) {
		return "secrets", nil
	}
	for range podspec.ConfigMaps(spec) {
		return "configmaps", nil
	}
	if len(spec.ResourceClaims) > 0 {
		return "resourceclaims", nil
	}
	for i := range spec.Volumes {
		if what, err := volumeRefersTo(&spec.Volumes[i]); what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

func volumeRefersTo(v *corev1.Volume) (string, error) {
	local := v.VolumeSource
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			switch s := &v.Projected.Sources[i]; {
			case s.ConfigMap != nil:
				return "configmaps (via projected volumes)", nil
			case s.Secret != nil:
				return "secrets (via projected volumes)", nil
			case s.ServiceAccountToken != nil:
				return "serviceaccounts (via projected volumes)", nil
			case s.ClusterTrustBundle != nil:
				return "clustertrustbundles", nil
			case s.PodCertificate != nil:
				return "podcertificates", nil
			case s.DownwardAPI == nil:
				return "", errors.New(`unknown source for projected volume "` + v.Name + `"`)
			}
		}
	case local == (corev1.VolumeSource{}):
		return "", errors.New(`unknown volume type for volume  "` + v.Name + `"`)
	}
	return "", nil // volumes that need no API object
}

func (k kubelet) podStatus(w *plugins.Write) error {
	if w.GetOperation() != upstream.Update {
		return refuse(w, "unexpected operation %q", w.GetOperation())
	}
	var now, old corev1.Pod
	if err := errors.Join(plugins.As(w.Object, &now), plugins.As(w.Old, &old)); err != nil {
		return err
	}
	switch {
	case old.Spec.NodeName != k.node:
		return refuse(w, "node %q can only update pod status for pods with spec.nodeName set to itself", k.node)
	case !labels.Equals(old.Labels, now.Labels):
		return refuse(w, "node %q cannot update labels through pod status", k.node)
	case !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, now.Status.ResourceClaimStatuses):
		return refuse(w, "node %q cannot update resource claim statues", k.node)
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, now.Status.ExtendedResourceClaimStatus):
		return refuse(w, "node %q cannot update extended resource claim status", k.node)
	case !slices.EqualFunc(old.Status.NodeAllocatableResourceClaimStatuses, now.Status.NodeAllocatableResourceClaimStatuses,
		sameAllocation):
		return refuse(w, "node %q cannot update node allocatable resource claim statuses", k.node)
	}
	return nil
}

func sameAllocation(a, b corev1.NodeAllocatableResourceClaimStatus) bool {
	same := apiresource.QuantityPtrEqual
	return a.ResourceClaimName == b.ResourceClaimName && slices.Equal(a.Containers, b.Containers) &&
		slices.EqualFunc(a.Mapping, b.Mapping, func(x, y corev1.NodeAllocatableMappedResources) bool {
			return x.Name == y.Name && same(x.Quantity, y.Quantity)
		}) &&
		slices.EqualFunc(a.Overhead, b.Overhead, func(x, y corev1.NodeAllocatableOverheadResources) bool {
			return x.Name == y.Name && same(x.PerPod, y.PerPod) && same(x.PerContainer, y.PerContainer)
		})
}

func (k kubelet) eviction(w *plugins.Write) error {
	if w.GetOperation() != upstream.Create {
		return refuse(w, "unexpected operation %s", w.GetOperation())
	}
	name := w.GetName()
	if name == "" {
		return refuse(w, "could not determine pod from request data")
	}
	of, err := k.podOf(w.GetNamespace(), name)
	if err != nil {
		return err
	}
	if of.Spec.NodeName != k.node {
		return refuse(w, "node %s can only evict pods with spec.nodeName set to itself", k.node)
	}
	return nil
}

// claim looks at a PersistentVolumeClaim, of which a kubelet writes how large it is.
func (k kubelet) claim(w *plugins.Write) error {
	if w.GetSubresource() != "status" {
		return refuse(w, "may only update PVC status")
	}
	if w.GetOperation() != upstream.Update {
		return refuse(w, "unexpected operation %q", w.GetOperation())
	}
	var now, old corev1.PersistentVolumeClaim
	if err := errors.Join(plugins.As(w.Object, &now), plugins.As(w.Old, &old)); err != nil {
		return err
	}
	for _, c := range []*corev1.PersistentVolumeClaim{&now, &old} {
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	}
	if !equality.Semantic.DeepEqual(&old, &now) {
		return refuse(w, "node %q is not allowed to update fields other than status.quantity and status.conditions: %v", k.node,
			diff.Diff(&old, &now))
	}
	return nil
}
