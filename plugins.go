package gapless

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/accounts"
	"github.com/gapless-io/gapless/internal/admission/plugins/catalog"
	"github.com/gapless-io/gapless/internal/admission/plugins/quotas"
	"github.com/gapless-io/gapless/internal/admission/plugins/storage"
	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/controllers/manager"
	"github.com/gapless-io/gapless/internal/kinds"
)

// AdmissionPlugins returns the names of the admission plugins of kube-apiserver that Config.EnableAdmissionPlugins and
// Config.DisableAdmissionPlugins turn on and off, in the order in which they are asked.
func AdmissionPlugins() []string { return catalog.Names() }

// DefaultAdmissionPlugins returns those of AdmissionPlugins that are asked by default, as by kube-apiserver.
func DefaultAdmissionPlugins() []string { return catalog.Defaults() }

// choosePlugins makes the plugins that are on, as they are configured. Errors: a wrong configuration.
func (s *Server) choosePlugins() error {
	settings, err := plugins.ReadSettings(s.cfg.AdmissionControlConfigFile)
	if err != nil {
		return err
	}
	s.cluster = &cluster{}
	all, tables, err := catalog.All(catalog.Config{
		Cluster: s.cluster, Authorizer: asked{s.cluster}, Settings: settings,
		MayWait:   func() bool { return s.chain != nil && s.chain.MayWait() },
		Resources: func() []*kinds.Resource { return s.cluster.live.Load().Resources() },
		NotReady:  s.cfg.DefaultNotReadyTolerationSeconds, Unreachable: s.cfg.DefaultUnreachableTolerationSeconds,
	})
	var wrong error
	s.quotas, wrong = quotas.New(settings[quotas.Name], s.cluster)
	err = errors.Join(err, wrong)
	if s.shown, wrong = webhook.ReadShown(settings); err != nil || wrong != nil {
		err = errors.Join(err, wrong)
		return fmt.Errorf("admission configuration %s: %w", s.cfg.AdmissionControlConfigFile, err)
	}
	for _, t := range tables {
		s.tables = append(s.tables, t)
	}
	s.plugins, err = plugins.Chosen(all, s.cfg.EnableAdmissionPlugins, s.cfg.disabledPlugins())
	return errors.Join(err, settings.Unused(catalog.Configurable(), s.plugins))
}

// disabledPlugins returns the names of the plugins that are off. In a directory those are off that are not named and
// whose work nothing there ends: without the accounts that pods have by default ServiceAccount would refuse all of them,
// and claims and volumes that no controller releases would stay for good, with their namespaces.
func (c Config) disabledPlugins() []string {
	if c.Etcd.used() {
		return c.DisableAdmissionPlugins
	}
	off := slices.Clone(c.DisableAdmissionPlugins)
	for _, name := range catalog.NeedControllers() {
		if !c.ends(name) && !slices.Contains(c.EnableAdmissionPlugins, name) {
			off = append(off, name)
		}
	}
	return off
}

// ends reports whether the server itself does what a plugin needs controllers for.
func (c Config) ends(plugin string) bool {
	switch plugin {
	case accounts.Name:
		return c.Bootstrap != BootstrapServer && c.Bootstrap != BootstrapNone
	case storage.InUseName:
		return !slices.ContainsFunc(manager.Protectors(), func(name string) bool { return !c.runs(name) })
	}
	return true
}
