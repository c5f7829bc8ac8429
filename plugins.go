package gapless

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/accounts"
	"github.com/gapless-io/gapless/internal/admission/plugins/certificates"
	"github.com/gapless-io/gapless/internal/admission/plugins/events"
	"github.com/gapless-io/gapless/internal/admission/plugins/limits"
	"github.com/gapless-io/gapless/internal/admission/plugins/network"
	"github.com/gapless-io/gapless/internal/admission/plugins/nodes"
	"github.com/gapless-io/gapless/internal/admission/plugins/pods"
	"github.com/gapless-io/gapless/internal/admission/plugins/quotas"
	"github.com/gapless-io/gapless/internal/admission/plugins/security"
	"github.com/gapless-io/gapless/internal/admission/plugins/storage"
	"github.com/gapless-io/gapless/internal/admission/plugins/writes"
	"github.com/gapless-io/gapless/internal/kinds"
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
func (c Config) knownPlugins(of *cluster, configured plugins.Settings) (
	all []plugins.Plugin, tables []registry.Follower, err error,
) {
	priorities, runtimes := pods.PriorityClasses(), pods.RuntimeClasses()
	classes, ingresses := storage.Classes(), network.IngressClasses()
	serviceAccounts, limitRanges, labelled := accounts.Accounts(of), limits.Ranges(), security.LabelledNamespaces()
	if of != nil {
		unknown := plugins.Cluster(of).UnknownOf // of the registry that the cluster will have
		priorities.Unknown, runtimes.Unknown, classes.Unknown, ingresses.Unknown = unknown, unknown, unknown, unknown
		serviceAccounts.Unknown, limitRanges.Unknown, labelled.Unknown = unknown, unknown, unknown
	}
	podSecurity, err := security.PodSecurity(labelled, of, configured[security.Name])
	others, wrong := restrictions(of, configured)
	return append([]plugins.Plugin{
		limits.LimitRanger(limitRanges),
		accounts.ServiceAccount(serviceAccounts),
		podSecurity,
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
	}, others...), []registry.Follower{
		priorities, runtimes, classes, ingresses, serviceAccounts, limitRanges, labelled,
	}, errors.Join(err, wrong)
}

// restrictions returns those of them that need no tables.
func restrictions(of *cluster, configured plugins.Settings) ([]plugins.Plugin, error) {
	authorizer := asked{of}
	selector, selectorErr := pods.PodNodeSelector(of, configured[pods.SelectorName])
	tolerations, tolerationsErr := pods.PodTolerationRestriction(of, configured[pods.RestrictionName])
	limited, limitedErr := events.EventRateLimit(configured[events.RateLimitName])
	return []plugins.Plugin{
		writes.AlwaysAdmit(),
		writes.NamespaceAutoProvision(),
		writes.NamespaceExists(of),
		pods.LimitPodHardAntiAffinityTopology(),
		nodes.NodeRestriction(nodes.Restriction{Cluster: of, Authorizer: authorizer}),
		selector,
		tolerations,
		limited,
		pods.ExtendedResourceToleration(),
		writes.OwnerReferencesPermissionEnforcement(writes.Owners{
			Authorizer: authorizer, Resources: func() []*kinds.Resource { return of.live.Load().Resources() },
		}),
		certificates.CertificateApproval(authorizer),
		certificates.CertificateSigning(authorizer),
		certificates.CertificateSubjectRestriction(),
		certificates.ClusterTrustBundleAttest(authorizer),
		writes.AlwaysDeny(),
		{Name: quotas.Name}, // which is asked when all others have allowed a write: see Server.admit
		// Nothing that is served concerns these: PodGroups, the resize of a pod and what only that can change
		// (docs/kinds.md).
		{Name: "PodGroupProtection"},
		{Name: "NodeDeclaredFeatureValidator"},
		{Name: "PodResizeValidator"},
	}, errors.Join(selectorErr, tolerationsErr, limitedErr)
}

// stay returns a number of seconds.
func stay(configured *int64) int64 {
	if configured == nil {
		return DefaultTolerationSeconds
	}
	return *configured
}

// configurable are the plugins that take a configuration.
var configurable = []string{ //nolint:gochecknoglobals // a constant table
	security.Name, pods.SelectorName, pods.RestrictionName, events.RateLimitName, quotas.Name,
}

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
		return fmt.Errorf("admission configuration %s: %w", s.cfg.AdmissionControlConfigFile, err)
	}
	s.plugins, err = plugins.Chosen(all, s.cfg.EnableAdmissionPlugins, s.cfg.DisableAdmissionPlugins)
	s.tables = tables
	var wrong error
	if s.quotas, wrong = quotas.New(settings[quotas.Name], s.cluster); wrong != nil {
		return fmt.Errorf("%s: %w", s.cfg.AdmissionControlConfigFile, wrong)
	}
	return errors.Join(err, settings.Unused(configurable, s.plugins))
}

// counted are what the plugins count.
func (s *Server) counted() (all []prometheus.Collector) {
	for _, p := range s.plugins {
		if p.Metrics != nil {
			all = append(all, p.Metrics)
		}
	}
	return all
}
