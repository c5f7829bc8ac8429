package relay

import (
	"context"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/kinds"
)

// refreshEvery is how often the relay asks upstream which resources it serves, at most; a
// resource that is not known makes it ask again after refreshAfter.
const (
	refreshEvery = time.Minute
	refreshAfter = time.Second
)

// learn asks upstream which resources it serves, and makes the catalog of those that can be
// mirrored. One that discovery does not name any more stays until upstream says of it, too, that it
// is not served.
func (r *Relay) learn(ctx context.Context) error {
	found, err := r.upstream.Resources(ctx)
	if len(found) == 0 {
		return err
	}
	if err != nil {
		r.logger.WarnContext(ctx,
			"the discovery of some resources failed: they are passed through, if they were not known before",
			slog.Any("error", err))
	}
	r.learning.Lock()
	defer r.learning.Unlock()
	before := r.live.Load()
	var all []*kinds.Resource
	named := map[kinds.GroupVersionResource]bool{}
	for _, of := range found {
		named[of.GroupVersionResource] = true
		if resource := r.mirrored(before, of); resource != nil {
			all = append(all, resource)
		}
	}
	for _, known := range before.Resources() {
		if !named[known.GVR()] {
			r.doubt(known)
			all = append(all, known)
		}
	}
	gone := r.unserved(ctx)
	all = slices.DeleteFunc(all, func(resource *kinds.Resource) bool { return gone[resource.GVR()] })
	r.live.Store(kinds.NewCatalog(all...))
	return nil
}

// mirrored returns a resource as the relay serves it; nil if it is not mirrored. It is the one
// that was known if nothing has changed.
func (r *Relay) mirrored(known *kinds.Catalog, of client.Resource) *kinds.Resource {
	if !slices.Contains(of.Verbs, "list") || !slices.Contains(of.Verbs, "watch") {
		return nil
	}
	if of.Group == "" && of.Resource == "secrets" && !r.cfg.MirrorSecrets || !r.own(of) {
		return nil
	}
	if was, is := known.Lookup(of.GroupVersionResource); is && was.Kind == of.Kind && was.Namespaced == of.Namespaced {
		return was
	}
	resource := &kinds.Resource{
		Group: of.Group, Version: of.Version, Plural: of.Resource, Singular: of.Singular, Kind: of.Kind,
		ListKind:   of.Kind + "List",
		Namespaced: of.Namespaced, Verbs: []string{"get", "list", "watch"}, StorageVersion: of.Version, Custom: true,
		Table: kinds.Table{Columns: kinds.DefaultColumns("date"), Row: kinds.DefaultRow},
	}
	if own, is := r.builtin.Lookup(of.GroupVersionResource); is && own.Kind == of.Kind && own.Namespaced == of.Namespaced {
		resource.ListKind, resource.Custom = own.ListKind, false
		resource.GoType, resource.Protobuf = own.GoType, own.Protobuf
		resource.Selectable, resource.Table = own.Selectable, own.Table
	}
	return resource
}

// same reports whether two states of a resource have the same mirror: they may be shown otherwise.
func same(a, b *kinds.Resource) bool { return a.Kind == b.Kind && a.Namespaced == b.Namespaced }

// own reports whether a resource, in all versions, belongs to this relay's shard.
func (r *Relay) own(of client.Resource) bool {
	if r.cfg.Shards == 0 {
		return true
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(of.GroupVersionResource.GroupResource().String())) // it never fails
	return int(sum.Sum32()%uint32(r.cfg.Shards)) == r.cfg.Shard                //nolint:gosec // a few shards
}

// name is the name of a collection in the log.
func name(resource *kinds.Resource) string {
	if resource.Group == "" {
		return resource.Plural + "." + resource.Version
	}
	return resource.Plural + "." + resource.Version + "." + resource.Group
}

// wanted reports whether Config.Resources names a resource: "pods", "deployments.apps",
// "deployments.v1.apps", or "*".
func (r *Relay) wanted(resource *kinds.Resource) bool {
	return slices.ContainsFunc(r.cfg.Resources, func(pattern string) bool {
		switch pattern {
		case "*", name(resource), resource.GR().String():
			return true
		}
		group, all := strings.CutPrefix(pattern, "*.")
		return all && group == resource.Group
	})
}
