package dropin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/admission/plugins"
)

// authorization returns the modes of gapless for those of kube-apiserver; without any, everything is allowed, as
// upstream's default.
func (p *plan) authorization() (string, error) {
	for _, m := range p.modes {
		switch m {
		case gapless.AuthorizationRBAC, gapless.AuthorizationNode, gapless.AuthorizationAlwaysAllow, gapless.AuthorizationAlwaysDeny:
		default:
			return "", refusal(setting{name: "authorization-mode", value: m}, "want RBAC, Node, AlwaysAllow or AlwaysDeny")
		}
	}
	if len(p.modes) == 0 {
		return gapless.AuthorizationAlwaysAllow, nil
	}
	return strings.Join(p.modes, ","), nil
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
		case on && !isDefault:
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

// requestHeaders accepts the names of headers that the server refuses: a front proxy that
// sends others would be taken for the caller itself.
func (p *plan) requestHeaders(s setting) error {
	for _, header := range list(s.value) {
		if !strings.HasPrefix(strings.ToLower(header), "x-remote-") {
			return refusal(setting{name: s.name, value: header},
				"no front proxy is trusted, and only requests with the headers X-Remote-User, -Group, -Uid and "+
					"-Extra-* are refused")
		}
	}
	if s.value != "" {
		p.warn(s.name, s.value, "no front proxy is trusted: requests with these headers are refused")
	}
	return nil
}
