package builtin

import (
	"context"
	"fmt"
	"net"
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/apiserver/pkg/endpoints/handlers" // has dedupOwners
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
	addresses := map[core.IPFamily]ipallocator.Interface{}
	for family, block := range map[core.IPFamily]string{core.IPv4Protocol: "10.96.0.0/16", core.IPv6Protocol: "fd00:96::/112"} {
		_, parsed, err := net.ParseCIDR(block)
		if err != nil {
			return fmt.Errorf("parse the block of addresses %s: %w", block, err)
		}
		if addresses[family], err = ipallocator.NewInMemory(parsed); err != nil {
			return fmt.Errorf("allocate addresses of %s: %w", block, err)
		}
	}
	from := makeAlloc(core.IPv4Protocol, addresses, nil)
	return initIPFamilyFields(&from, after, before)
}
