// Package cluster has the rules for the kinds that the machinery of a cluster works with:
// ranges of service addresses, capacity and attributes of storage, trust bundles and
// certificates of pods, migrations of storage.
//
// A rule for a kind ([ServiceCIDR]) returns the errors of an object, for every write or for
// its creation. An update rule ([ServiceCIDRUpdate]) returns the errors of a change. The texts
// are upstream's (pkg/apis/*/validation of Kubernetes 1.37).
package cluster
