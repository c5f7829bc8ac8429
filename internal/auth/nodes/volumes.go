package nodes

import (
	"cmp"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

// bound is the volumes that have a claim.
type bound struct {
	mu      sync.Mutex // see node.mu
	volumes map[string]*volume
	claims  map[wire.Key]map[string]*volume // by claim, and by the name of the volume
	secrets map[wire.Key]map[string]*volume // by secret
}

// volume is a PersistentVolume that has a claim.
type volume struct {
	claim   wire.Key
	secrets []wire.Key // those that a kubelet needs
}

func newBound() bound {
	return bound{
		volumes: map[string]*volume{}, claims: map[wire.Key]map[string]*volume{}, secrets: map[wire.Key]map[string]*volume{},
	}
}

// apply decodes volumes; nil: deleted. The caller holds mu.
func (b *bound) apply(changed map[string]*wire.Object) {
	for name, o := range changed {
		if old := b.volumes[name]; old != nil {
			drop(b.claims, old.claim, name)
			for _, secret := range old.secrets {
				drop(b.secrets, secret, name)
			}
			delete(b.volumes, name)
		}
		v, is := volumeOf(o)
		if !is {
			continue
		}
		b.volumes[name] = v
		put(b.claims, v.claim, name, v)
		for _, secret := range v.secrets {
			put(b.secrets, secret, name, v)
		}
	}
}

func put(in map[wire.Key]map[string]*volume, key wire.Key, name string, v *volume) {
	if in[key] == nil {
		in[key] = map[string]*volume{}
	}
	in[key][name] = v
}

func drop(in map[wire.Key]map[string]*volume, key wire.Key, name string) {
	delete(in[key], name)
	if len(in[key]) == 0 {
		delete(in, key)
	}
}

// volumeOf reads a PersistentVolume; false: there is none, or it has no claim.
func volumeOf(o *wire.Object) (v *volume, is bool) {
	var read struct{ Spec corev1.PersistentVolumeSpec }
	if !decode(o, &read) || read.Spec.ClaimRef == nil {
		return nil, false
	}
	claim := read.Spec.ClaimRef
	v = &volume{claim: wire.Key{Namespace: claim.Namespace, Name: claim.Name}}
	add := func(namespace, name string) {
		if name != "" {
			v.secrets = append(v.secrets, wire.Key{Namespace: namespace, Name: name})
		}
	}
	// reference adds one whose namespace, if it has none, is another one.
	reference := func(ref *corev1.SecretReference, otherwise string) {
		if ref != nil {
			add(cmp.Or(ref.Namespace, otherwise), ref.Name)
		}
	}
	switch source := &read.Spec.PersistentVolumeSource; { // pkg/api/v1/persistentvolume VisitPVSecretNames
	case source.AzureFile != nil:
		namespace := claim.Namespace
		if other := source.AzureFile.SecretNamespace; other != nil {
			namespace = cmp.Or(*other, namespace)
		}
		add(namespace, source.AzureFile.SecretName)
	case source.CephFS != nil:
		reference(source.CephFS.SecretRef, claim.Namespace)
	case source.Cinder != nil:
		reference(source.Cinder.SecretRef, "")
	case source.FlexVolume != nil:
		reference(source.FlexVolume.SecretRef, claim.Namespace)
	case source.RBD != nil:
		reference(source.RBD.SecretRef, claim.Namespace)
	case source.ScaleIO != nil:
		reference(source.ScaleIO.SecretRef, claim.Namespace)
	case source.ISCSI != nil:
		reference(source.ISCSI.SecretRef, claim.Namespace)
	case source.StorageOS != nil && source.StorageOS.SecretRef != nil:
		add(source.StorageOS.SecretRef.Namespace, source.StorageOS.SecretRef.Name)
	case source.CSI != nil:
		reference(source.CSI.NodePublishSecretRef, "")
		reference(source.CSI.NodeStageSecretRef, "")
		reference(source.CSI.NodeExpandSecretRef, "")
	}
	return v, true
}
