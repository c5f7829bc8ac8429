// Package catalog puts the admission plugins together.
package catalog

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"

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
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// Cluster is what plugins read.
type Cluster interface {
	plugins.Cluster
	accounts.Cluster
	security.Cluster
}

// Config is what plugins need. The zero value is for their names.
type Config struct {
	Cluster    Cluster
	Authorizer auth.Authorizer
	// MayWait reports whether the authorizer may ask others, and wait for them.
	MayWait func() bool
	// Resources are those that are served now.
	Resources func() []*kinds.Resource
	// Settings are the configurations of plugins.
	Settings plugins.Settings
	// NotReady and Unreachable are the seconds of DefaultTolerationSeconds; nil: upstream's.
	NotReady, Unreachable *int64
}

// stay is how many seconds pods stay by default.
const stay = 300

// Names returns the names of all plugins in upstream's order.
func Names() []string {
	all, _, _ := All(Config{}) // without configurations none is wrong
	return plugins.Names(all)
}

// Defaults returns those of Names that are asked by default.
func Defaults() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return !plugins.IsDefault(name) })
}

// NeedControllers returns the names of plugins that are asked by default, and whose work controllers end.
func NeedControllers() []string { return []string{accounts.Name, storage.InUseName} }

// Check returns an error for a name that is none, or that of a plugin which cannot be on or off.
func Check(enable, disable []string) error {
	all, _, _ := All(Config{}) // without configurations none is wrong
	_, err := plugins.Chosen(all, enable, disable)
	return err
}

// All returns all plugins, and the tables that they read. Errors: a wrong configuration.
func All(c Config) (all []plugins.Plugin, tables []plugins.Follower, err error) {
	priorities, runtimes := pods.PriorityClasses(), pods.RuntimeClasses()
	classes, ingresses := storage.Classes(), network.IngressClasses()
	serviceAccounts, limitRanges, labelled := accounts.Accounts(c.Cluster), limits.Ranges(), security.LabelledNamespaces()
	if c.Cluster != nil {
		unknown := c.Cluster.UnknownOf
		priorities.Unknown, runtimes.Unknown, classes.Unknown, ingresses.Unknown = unknown, unknown, unknown, unknown
		serviceAccounts.Unknown, limitRanges.Unknown, labelled.Unknown = unknown, unknown, unknown
	}
	podSecurity, err := security.PodSecurity(labelled, c.Cluster, c.Settings[security.Name])
	others, wrong := c.others()
	all = append([]plugins.Plugin{
		limits.LimitRanger(limitRanges),
		accounts.ServiceAccount(serviceAccounts),
		podSecurity,
		nodes.TaintNodesByCondition(),
		pods.AlwaysPullImages(),
		pods.Priority(priorities),
		pods.DefaultTolerationSeconds(ptr.Deref(c.NotReady, stay), ptr.Deref(c.Unreachable, stay)),
		pods.RuntimeClass(runtimes),
		pods.PodTopologyLabels(c.Cluster),
		storage.DefaultStorageClass(classes),
		storage.ObjectInUseProtection(),
		storage.PersistentVolumeClaimResize(classes),
		network.DefaultIngressClass(ingresses),
		network.DenyServiceExternalIPs(),
	}, others...)
	tables = []plugins.Follower{priorities, runtimes, classes, ingresses, serviceAccounts, limitRanges, labelled}
	return all, tables, errors.Join(err, wrong)
}

// others returns those that need no tables.
func (c Config) others() ([]plugins.Plugin, error) {
	selector, selectorErr := pods.PodNodeSelector(c.Cluster, c.Settings[pods.SelectorName])
	tolerations, tolerationsErr := pods.PodTolerationRestriction(c.Cluster, c.Settings[pods.RestrictionName])
	limited, limitedErr := events.EventRateLimit(c.Settings[events.RateLimitName])
	return []plugins.Plugin{
		writes.AlwaysAdmit(),
		writes.NamespaceAutoProvision(),
		writes.NamespaceExists(c.Cluster),
		pods.LimitPodHardAntiAffinityTopology(),
		nodes.NodeRestriction(nodes.Restriction{Cluster: c.Cluster, Authorizer: c.Authorizer, MayWait: c.MayWait}),
		selector,
		tolerations,
		limited,
		pods.ExtendedResourceToleration(),
		writes.OwnerReferencesPermissionEnforcement(writes.Owners{
			Authorizer: c.Authorizer, MayWait: c.MayWait, Resources: c.Resources,
		}),
		certificates.CertificateApproval(c.Authorizer),
		certificates.CertificateSigning(c.Authorizer),
		certificates.CertificateSubjectRestriction(),
		certificates.ClusterTrustBundleAttest(c.Authorizer),
		writes.AlwaysDeny(),
		{Name: quotas.Name}, // an admission.Charger, which is asked when all others have allowed a write
		pods.NodeDeclaredFeatureValidator(c.Cluster),
		pods.PodResizeValidator(c.Cluster),
		{Name: "PodGroupProtection"}, // PodGroups are not served
	}, errors.Join(selectorErr, tolerationsErr, limitedErr)
}

// Collectors returns what plugins count.
func Collectors(of []plugins.Plugin) (all []prometheus.Collector) {
	for _, p := range of {
		if p.Metrics != nil {
			all = append(all, p.Metrics)
		}
	}
	return all
}

// Configurable returns the names of the plugins that take a configuration.
func Configurable() []string {
	return []string{
		security.Name, pods.SelectorName, pods.RestrictionName, events.RateLimitName, quotas.Name,
		"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook",
	}
}
