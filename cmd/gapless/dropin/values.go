package dropin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/catalog"
)

// access returns the flag of gapless that says who decides what callers may do. Without a flag everything is allowed, as
// upstream's default.
func (p *plan) access() (string, error) {
	if p.authorizers != "" {
		if len(p.modes) > 0 {
			return "", refusal(setting{name: "authorization-config", value: p.authorizers}, "--authorization-mode is given too")
		}
		return "--authorization-config=" + p.authorizers, nil
	}
	for _, mode := range p.modes {
		if !slices.Contains([]string{"RBAC", "Node", "Webhook", "AlwaysAllow", "AlwaysDeny"}, mode) {
			return "", refusal(setting{name: "authorization-mode", value: mode},
				"want RBAC, Node, Webhook, AlwaysAllow or AlwaysDeny")
		}
	}
	if len(p.modes) == 0 {
		return "--authorization-mode=" + gapless.AuthorizationAlwaysAllow, nil
	}
	return "--authorization-mode=" + strings.Join(p.modes, ","), nil
}

// absent are plugins, of kube-apiserver 1.37 and before, that the server has not. They fill in or check
// what a cluster needs that runs pods, and a suite that names one of them may do without.
var absent = []string{ //nolint:gochecknoglobals // a constant table
	"PersistentVolumeLabel",
}

// plugins returns the admission plugins that are to be turned on and off, of those that the server has: they are on as
// with kube-apiserver.
func (p *plan) plugins() (enable, disable []string) {
	for _, name := range gapless.AdmissionPlugins() {
		isDefault := plugins.IsDefault(name)
		on, said := p.switched[name]
		if !said {
			on = isDefault && !p.named
		}
		switch {
		case on && (!isDefault || slices.Contains(catalog.NeedControllers(), name)): // which are off in a directory
			enable = append(enable, name)
		case isDefault && !on:
			disable = append(disable, name)
		}
	}
	return enable, disable
}

// enabled reads the plugins that are turned on. One that the server has not is refused,
// unless it is one of upstream's defaults or denies nothing.
func (p *plan) enabled(s setting) error {
	p.named = p.named || s.name == "admission-control" // the plugins that it does not name are off
	for _, plugin := range list(s.value) {
		switch {
		case plugins.IsLasting(plugin):
		case slices.Contains(gapless.AdmissionPlugins(), plugin):
			if err := p.turn(s.name, plugin, true); err != nil {
				return err
			}
		case plugins.IsDefault(plugin), slices.Contains(absent, plugin):
			p.warn(s.name, plugin, "the server has no such admission plugin")
		default:
			return refusal(setting{name: s.name, value: plugin},
				"the server has no such admission plugin, and would accept what it denies")
		}
	}
	return nil
}

// disabled reads the plugins that are turned off.
func (p *plan) disabled(s setting) error {
	for _, plugin := range list(s.value) {
		if plugins.IsLasting(plugin) {
			p.warn(s.name, plugin, "the admission plugin is always on")
		}
		if err := p.turn(s.name, plugin, false); err != nil {
			return err
		}
	}
	return nil
}

// turn turns a plugin on or off, once, as upstream.
func (p *plan) turn(flag, plugin string, on bool) error {
	if was, said := p.switched[plugin]; said && was != on {
		return refusal(setting{name: flag, value: plugin}, "the plugin is both enabled and disabled")
	}
	p.switched[plugin] = on
	return nil
}

// noLimit stands for 0 of kube-apiserver, which gapless takes for its default.
const noLimit = "1000000"

func (p *plan) inFlight(s setting) {
	if s.value == "0" {
		s.value = noLimit
	}
	p.args = append(p.args, "--"+s.name+"="+s.value)
}

// minVersion accepts what the server does anyway.
func (p *plan) minVersion(s setting) error {
	if slices.Contains([]string{"", "VersionTLS10", "VersionTLS11", "VersionTLS12"}, s.value) {
		return nil
	}
	return refusal(s, "TLS 1.2 is accepted too")
}

// verbosity makes a level of klog one of slog. Upstream logs requests from 3, and at 4 what
// it says is for debugging.
func (p *plan) verbosity(s setting) error {
	level, err := strconv.Atoi(s.value)
	if err != nil {
		return fmt.Errorf("--v=%s: want a number", s.value)
	}
	p.verbose = level >= 4
	return nil
}
