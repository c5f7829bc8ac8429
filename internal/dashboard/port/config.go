package port

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"slices"

	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/dashboard"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/kube"
)

// Config says what a server, or a relay, shows. All of it is required but Mirrored, Replicates and FaultsPath.
type Config struct {
	// API answers requests of callers, and Inside those of the reader of an open dashboard.
	API, Inside http.Handler
	// StatusPath is what a caller must be allowed to GET to see who watches.
	StatusPath string
	Live       *kinds.Live
	// Reached returns up to which resourceVersion each resource is known, by "deployments.apps" or "deployments.v1.apps".
	Reached func() map[string]kube.ResourceVersion
	// Mirrored says that only the resources of Reached are read, and nothing newer.
	Mirrored bool
	// Replicates says that StatusPath has the status of a replica over etcd, and FaultsPath where the rules of faults are;
	// "": there are none.
	Replicates bool
	FaultsPath string
	// Watches returns the watches that are open, and Expired the last ones that got 410.
	Watches func() []feed.Open
	Expired func() []feed.Expired
	// TLS returns the configuration of a handshake.
	TLS func() *tls.Config
	// Bounds are those of connections, and Streams that of requests at once on one.
	Bounds   limit.Bounds
	Streams  int
	Refusals *limit.Refusals
	About    string
	Logger   *slog.Logger
}

func (c *Config) dashboard() dashboard.Config {
	return dashboard.Config{
		API: c.API, StatusPath: c.StatusPath, Resources: c.resources, Watches: c.watches,
		Expired: c.expired, Mirrors: c.Mirrored, Replicates: c.Replicates, FaultsPath: c.FaultsPath, Newest: c.newest,
		Revision: c.revision, About: c.About, Logger: c.Logger,
	}
}

// resources returns each resource that can be listed and watched, in the version that discovery prefers.
func (c *Config) resources() []dashboard.Resource {
	var reached map[string]kube.ResourceVersion
	if c.Mirrored {
		reached = c.Reached()
	}
	var all []dashboard.Resource
	seen := map[kinds.GroupResource]bool{}
	for _, group := range c.Live.Load().Groups() {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				of := dashboard.Resource{
					Group: r.Group, Version: r.Version, Plural: r.Plural, Kind: r.Kind, Namespaced: r.Namespaced,
				}
				of.Reached = uint64(reached[of.ID()])
				if seen[r.GR()] || !slices.Contains(r.Verbs, "watch") || c.Mirrored && of.Reached == 0 {
					continue
				}
				seen[r.GR()] = true
				all = append(all, of)
			}
		}
	}
	return all
}

func (c *Config) newest() (newest uint64) {
	for _, rv := range c.Reached() {
		newest = max(newest, uint64(rv))
	}
	return newest
}

// revision is another number after a change of any object.
func (c *Config) revision() (sum uint64) {
	for _, rv := range c.Reached() {
		sum += uint64(rv)
	}
	return sum
}

func (c *Config) watches() []dashboard.Watch {
	reached := c.Reached()
	open := c.Watches()
	all := make([]dashboard.Watch, len(open))
	for i, o := range open {
		all[i] = dashboard.Watch{
			User: o.User, UserAgent: o.UserAgent, Resource: o.Resource, Namespace: o.Namespace,
			LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector, Since: o.Since, Delivered: o.Delivered,
			Known: uint64(o.Known),
		}
		now := reached[o.Resource]
		if c.Mirrored {
			now = reached[dashboard.Named(o.Resource, o.Version)]
		}
		all[i].Behind = o.Behind(now)
	}
	return all
}

// expired returns the newest first.
func (c *Config) expired() []dashboard.Expired {
	var all []dashboard.Expired
	for _, e := range slices.Backward(c.Expired()) {
		all = append(all, dashboard.Expired{
			Watch: dashboard.Watch{
				User: e.User, UserAgent: e.UserAgent, Resource: e.Resource, Namespace: e.Namespace,
				LabelSelector: e.LabelSelector, FieldSelector: e.FieldSelector, Since: e.Since, Known: uint64(e.Known),
			},
			At: e.At, From: uint64(e.From), Why: e.Why,
		})
	}
	return all
}
