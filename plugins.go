package gapless

import (
	"slices"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/network"
	"github.com/gapless-io/gapless/internal/admission/plugins/nodes"
	"github.com/gapless-io/gapless/internal/admission/plugins/pods"
	"github.com/gapless-io/gapless/internal/admission/plugins/storage"
	"github.com/gapless-io/gapless/internal/registry"
)

// AdmissionPlugins returns the names of the admission plugins of kube-apiserver that Config.EnableAdmissionPlugins
// turns on, in the order in which they are asked.
func AdmissionPlugins() []string {
	all, _ := knownPlugins(nil)
	return plugins.Names(all)
}

// DefaultAdmissionPlugins returns those of AdmissionPlugins that kube-apiserver asks by default.
func DefaultAdmissionPlugins() []string {
	return slices.DeleteFunc(AdmissionPlugins(), func(name string) bool { return !plugins.IsDefault(name) })
}

// knownPlugins returns all plugins that can be enabled, and the tables that they read.
func knownPlugins(c plugins.Cluster) (all []plugins.Plugin, tables []registry.Follower) {
	priorities, runtimes := pods.PriorityClasses(), pods.RuntimeClasses()
	classes, ingresses := storage.Classes(), network.IngressClasses()
	if c != nil {
		priorities.Unknown, runtimes.Unknown = c.UnknownOf, c.UnknownOf
		classes.Unknown, ingresses.Unknown = c.UnknownOf, c.UnknownOf
	}
	return []plugins.Plugin{
		nodes.TaintNodesByCondition(),
		pods.AlwaysPullImages(),
		pods.Priority(priorities),
		pods.DefaultTolerationSeconds(),
		pods.RuntimeClass(runtimes),
		pods.PodTopologyLabels(c),
		storage.DefaultStorageClass(classes),
		storage.ObjectInUseProtection(),
		storage.PersistentVolumeClaimResize(classes),
		network.DefaultIngressClass(ingresses),
		network.DenyServiceExternalIPs(),
	}, []registry.Follower{priorities, runtimes, classes, ingresses}
}

// plugins returns those that are enabled, which read a cluster. Errors: a name that is none of theirs.
func (c Config) plugins(of plugins.Cluster) (enabled []plugins.Plugin, tables []registry.Follower, err error) {
	names := slices.Clone(c.EnableAdmissionPlugins)
	if c.TaintNewNodes {
		names = append(names, nodes.TaintName)
	}
	all, tables := knownPlugins(of)
	enabled, err = plugins.Enabled(all, names)
	return enabled, tables, err
}
