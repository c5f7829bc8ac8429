package builtin

import (
	"context"
	"fmt"
	"net"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/apiserver/pkg/endpoints/handlers" // has dedupOwners
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// What kube-apiserver does around its strategies: it removes owner references that stand twice, and
// keeps what was allocated for a Service, and allocates what is missing. Its functions for that are
// not exported, and some need an etcd otherwise.

//go:linkname dedupOwners k8s.io/apiserver/pkg/endpoints/handlers.dedupOwnerReferencesAndAddWarning
func dedupOwners(object runtime.Object, ctx context.Context, admitted bool) //nolint:revive // upstream's order

//go:linkname patchAllocatedValues k8s.io/kubernetes/pkg/registry/core/service/storage.patchAllocatedValues
func patchAllocatedValues(after storage.After, before storage.Before)

//go:linkname normalizeClusterIPs k8s.io/kubernetes/pkg/registry/core/service/storage.normalizeClusterIPs
func normalizeClusterIPs(after storage.After, before storage.Before)

//go:linkname makeAlloc k8s.io/kubernetes/pkg/registry/core/service/storage.makeAlloc
func makeAlloc(family core.IPFamily, addresses map[core.IPFamily]ipallocator.Interface,
	ports portallocator.Interface) storage.Allocators

//go:linkname initIPFamilyFields k8s.io/kubernetes/pkg/registry/core/service/storage.(*Allocators).initIPFamilyFields
func initIPFamilyFields(from *storage.Allocators, after storage.After, before storage.Before) error

// beginUpdate does to a Service what kube-apiserver does before its strategy, but for new
// allocations, which gapless does not do. Families are looked at where the stored Service has
// some, since they are given to all others.
func beginUpdate(service, old *core.Service) error {
	after, before := storage.After{Service: service}, storage.Before{Service: old}
	patchAllocatedValues(after, before)
	normalizeClusterIPs(after, before)
	if old.Spec.IPFamilyPolicy == nil {
		return nil
	}
	from, err := allocators(core.IPv4Protocol, core.IPv6Protocol)
	if err != nil {
		return err
	}
	return initIPFamilyFields(&from, after, before)
}

// allocators returns those of a cluster that has some IP families, the default first.
func allocators(of ...core.IPFamily) (storage.Allocators, error) {
	blocks := map[core.IPFamily]string{core.IPv4Protocol: "10.96.0.0/16", core.IPv6Protocol: "fd00:96::/112"}
	addresses := map[core.IPFamily]ipallocator.Interface{}
	for _, family := range of {
		_, parsed, err := net.ParseCIDR(blocks[family])
		if err != nil {
			return storage.Allocators{}, fmt.Errorf("parse the block of addresses %s: %w", blocks[family], err)
		}
		if addresses[family], err = ipallocator.NewInMemory(parsed); err != nil {
			return storage.Allocators{}, fmt.Errorf("allocate addresses of %s: %w", blocks[family], err)
		}
	}
	return makeAlloc(of[0], addresses, nil), nil
}

// Families gives a Service that is written the IP families of a cluster which has some, the default
// first, as kube-apiserver does. was is what it replaces, or nil. Errors: those of kube-apiserver.
func Families(of []corev1.IPFamily, now, was *corev1.Service) error {
	internal := make([]core.IPFamily, len(of))
	for i, family := range of {
		internal[i] = core.IPFamily(family)
	}
	from, err := allocators(internal...)
	if err != nil {
		return err
	}
	var after, before *core.Service
	for _, s := range []struct {
		from *corev1.Service
		to   **core.Service
	}{{now, &after}, {was, &before}} {
		if s.from == nil {
			continue
		}
		*s.to = &core.Service{}
		if err := legacyscheme.Scheme.Convert(s.from, *s.to, nil); err != nil {
			return fmt.Errorf("convert a Service: %w", err)
		}
	}
	if err := initIPFamilyFields(&from, storage.After{Service: after}, storage.Before{Service: before}); err != nil {
		return err
	}
	if err := legacyscheme.Scheme.Convert(after, now, nil); err != nil {
		return fmt.Errorf("convert a Service back: %w", err)
	}
	return nil
}
