package gapless

import (
	"errors"
	"slices"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/network"
	"github.com/gapless-io/gapless/internal/admission/plugins/nodes"
	"github.com/gapless-io/gapless/internal/admission/plugins/pods"
	"github.com/gapless-io/gapless/internal/admission/plugins/storage"
	"github.com/gapless-io/gapless/internal/registry"
)

// AdmissionPlugins returns the names of the admission plugins of kube-apiserver that Config.EnableAdmissionPlugins and
// Config.DisableAdmissionPlugins turn on and off, in the order in which they are asked.
func AdmissionPlugins() []string {
	all, _, _ := Config{}.knownPlugins(nil, nil) // without configurations none is wrong
	return plugins.Names(all)
}

// DefaultAdmissionPlugins returns those of AdmissionPlugins that are asked by default, as by kube-apiserver.
func DefaultAdmissionPlugins() []string {
	return slices.DeleteFunc(AdmissionPlugins(), func(name string) bool { return !plugins.IsDefault(name) })
}

// knownPlugins returns all plugins that can be on, as they are configured, and the tables that they read. Errors:
// a wrong configuration.
func (c Config) knownPlugins(of plugins.Cluster, _ plugins.Settings) (
	all []plugins.Plugin, tables []registry.Follower, err error,
) {
	priorities, runtimes := pods.PriorityClasses(), pods.RuntimeClasses()
	classes, ingresses := storage.Classes(), network.IngressClasses()
	if of != nil {
		priorities.Unknown, runtimes.Unknown = of.UnknownOf, of.UnknownOf
		classes.Unknown, ingresses.Unknown = of.UnknownOf, of.UnknownOf
	}
	return []plugins.Plugin{
		nodes.TaintNodesByCondition(),
		pods.AlwaysPullImages(),
		pods.Priority(priorities),
		pods.DefaultTolerationSeconds(stay(c.DefaultNotReadyTolerationSeconds), stay(c.DefaultUnreachableTolerationSeconds)),
		pods.RuntimeClass(runtimes),
		pods.PodTopologyLabels(of),
		storage.DefaultStorageClass(classes),
		storage.ObjectInUseProtection(),
		storage.PersistentVolumeClaimResize(classes),
		network.DefaultIngressClass(ingresses),
		network.DenyServiceExternalIPs(),
	}, []registry.Follower{priorities, runtimes, classes, ingresses}, nil
}

// stay returns a number of seconds.
func stay(configured *int64) int64 {
	if configured == nil {
		return DefaultTolerationSeconds
	}
	return *configured
}

// configurable are the plugins that take a configuration.
var configurable []string //nolint:gochecknoglobals // a constant table

// checkPlugins returns an error for a name of a plugin that is none, or cannot be on or off.
func (c Config) checkPlugins() error {
	all, _, _ := c.knownPlugins(nil, nil) // without configurations none is wrong
	_, err := plugins.Chosen(all, c.EnableAdmissionPlugins, c.DisableAdmissionPlugins)
	return err
}

// choosePlugins makes the plugins that are on, as they are configured. Errors: a wrong configuration.
func (s *Server) choosePlugins() error {
	settings, err := plugins.ReadSettings(s.cfg.AdmissionControlConfigFile)
	if err != nil {
		return err
	}
	s.cluster = &cluster{}
	all, tables, err := s.cfg.knownPlugins(s.cluster, settings)
	if err != nil {
		return err
	}
	s.plugins, err = plugins.Chosen(all, s.cfg.EnableAdmissionPlugins, s.cfg.DisableAdmissionPlugins)
	s.tables = tables
	return errors.Join(err, settings.Unused(configurable, s.plugins))
}
