package nodes

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/wire"
)

// needs reports whether a node needs an object.
func (a *Authorizer) needs(node string, gr schema.GroupResource, key wire.Key) bool {
	switch gr {
	case pods, slicesOf, certificates:
		o := a.cluster.Find(gr, key)
		return o != nil && o.Fields().Get(nodeName) == node
	case attachments:
		var attachment struct {
			Spec struct{ NodeName string }
		}
		return decode(a.cluster.Find(gr, key), &attachment) && attachment.Spec.NodeName == node
	case volumes:
		v, is := volumeOf(a.cluster.Find(gr, key))
		return is && a.graph.needs(node, need{claims, v.claim})
	}
	return a.graph.needs(node, need{gr, key})
}

// decode reads an object; false: there is none, or what is stored is not of its kind, and nobody has rights by it.
func decode(o *wire.Object, into any) bool {
	return o != nil && json.Unmarshal(o.JSON(), into) == nil
}

// pod is what of a Pod says what it needs.
type pod struct {
	Metadata struct {
		Annotations map[string]string
	}
	Spec   corev1.PodSpec
	Status struct {
		ResourceClaimStatuses       []corev1.PodResourceClaimStatus
		ExtendedResourceClaimStatus *corev1.PodExtendedResourceClaimStatus
	}
}

// needsOf returns what a pod needs. Mirror pods, which kubelets create, give them no rights.
func needsOf(o *wire.Object) []need {
	var p pod
	if !decode(o, &p) {
		return nil
	}
	if _, is := p.Metadata.Annotations[corev1.MirrorPodAnnotationKey]; is {
		return nil
	}
	var all []need
	seen := map[need]struct{}{}
	add := func(gr schema.GroupResource, name string) {
		one := need{gr, wire.Key{Namespace: o.Key().Namespace, Name: name}}
		if _, has := seen[one]; has || name == "" {
			return
		}
		seen[one] = struct{}{}
		all = append(all, one)
	}
	add(accounts, p.Spec.ServiceAccountName)
	for name := range podspec.Secrets(&p.Spec) {
		add(secrets, name)
	}
	for name := range podspec.ConfigMaps(&p.Spec) {
		add(configMaps, name)
	}
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			add(claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			add(claims, o.Key().Name+"-"+v.Name)
		}
	}
	for i := range p.Spec.ResourceClaims {
		add(devices, p.claim(&p.Spec.ResourceClaims[i]))
	}
	if extended := p.Status.ExtendedResourceClaimStatus; extended != nil {
		add(devices, extended.ResourceClaimName)
	}
	return all
}

// claim returns the name of a ResourceClaim of the pod, "" if there is none, or not yet
// (dynamic-resource-allocation/resourceclaim Name).
func (p *pod) claim(of *corev1.PodResourceClaim) string {
	if of.ResourceClaimName != nil {
		return *of.ResourceClaimName
	}
	for _, made := range p.Status.ResourceClaimStatuses {
		if made.Name == of.Name && of.ResourceClaimTemplateName != nil && made.ResourceClaimName != nil {
			return *made.ResourceClaimName
		}
	}
	return ""
}
