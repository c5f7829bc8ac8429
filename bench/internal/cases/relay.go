package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// relaying is what a relay before each server promises, and what upstream alone needs for the
// same work.
func relaying() []Case {
	watch := func(name, title string, large bool) Case {
		return Case{
			Name: name, Title: title, Stage: Definition, Fresh: true, Relay: true, Run: runRelayWatch(large), Metrics: []Metric{
				{Name: "share", Goal: AtMost(1. / 20)},
				{Name: "share-served"},
				{Name: "alone", Unit: "ms/change"},
				{Name: "upstream", Unit: "ms/change"},
				{Name: "relay", Unit: "ms/change"},
				{Name: "added-p50", Unit: "ms", Goal: AtMost(3)},
				{Name: "added-p99", Unit: "ms", Goal: AtMost(20)},
				{Name: "over-p50", Unit: "ms", Goal: AtMost(3)},
				{Name: "over-p99", Unit: "ms", Goal: AtMost(20)},
				{Name: "one-p50", Unit: "ms"},
				{Name: "one-p99", Unit: "ms"},
				{Name: "alone-p50", Unit: "ms"},
				{Name: "alone-p99", Unit: "ms"},
			},
		}
	}
	all := []Case{
		watch("relay-watch-500", "500 watchers, 50 changes/s", false),
		watch("relay-watch-5000", "5 000 watchers, 50 changes/s", true),
		{
			Name: "relay-restart", Title: "upstream restarts under 1 000 informers of 10 000 objects", Relay: true, Once: true,
			Run: runRelayRestart, Metrics: []Metric{
				{Name: "client-lists", Goal: AtMost(0)},
				{Name: "relay-lists", Goal: AtMost(1)},
				{Name: "relay-pages"},
				{Name: "right", Unit: "s", Goal: AtMost(5)},
				{Name: "watches-ended"},
				{Name: "alone-lists", Unit: "per informer"},
				{Name: "alone-right", Unit: "s"},
			},
		},
		{
			Name: "relay-lists", Title: "200 clients list 10 000 at once", Stage: Objects, Fresh: true, Relay: true, Once: true,
			Run: runRelayLists, Metrics: []Metric{
				{Name: "share-0", Goal: AtMost(1. / 20)},
				{Name: "share", Goal: AtMost(1. / 20)},
				{Name: "time-0", Unit: "s"},
				{Name: "time", Unit: "s"},
				{Name: "alone", Unit: "s"},
				{Name: "upstream-0", Unit: "lists", Goal: AtMost(1)},
				{Name: "upstream", Unit: "lists", Goal: AtMost(1)},
				{Name: "relay", Unit: "ms/list"},
			},
		},
		relayFresh("relay-fresh-quiet", "consistent lists, 100/s, nothing changes", quiet),
		relayFresh("relay-fresh-other", "consistent lists, 100/s, 20 changes/s of another resource", elsewhere),
		relayFresh("relay-fresh", "consistent lists, 100/s, 50 changes/s", changing),
		{
			Name: "relay-hold", Title: "100 000 objects of 2 KB, 180 000 changes", Relay: true, Once: true, Run: runRelayHold,
			Metrics: []Metric{
				{Name: "cold", Unit: "s", Goal: AtMost(10)},
				{Name: "cold-cpu", Unit: "s"},
				{Name: "cold-upstream", Unit: "s"},
				{Name: "list", Unit: "s"},
				{Name: "warm", Unit: "s", Goal: AtMost(2)},
				{Name: "warm-cpu", Unit: "s"},
				{Name: "warm-lists", Goal: AtMost(0)},
				{Name: "resumed", Unit: "events/s"},
				{Name: "memory", Unit: "of upstream's", Goal: AtMost(1. / 3)},
				{Name: "relay", Unit: "MB"},
				{Name: "upstream", Unit: "MB"},
				{Name: "relay-history", Unit: "MB"},
				{Name: "relay-warm", Unit: "MB"},
			},
		},
	}
	for _, c := range all {
		kinds := c
		kinds.Name, kinds.Title, kinds.Kinds, kinds.Fresh = c.Name+"-kinds", c.Title+", ConfigMaps", true, true
		all = append(all, kinds)
	}
	return append(all, relayForms())
}

// collection is the path of what is listed and watched.
func (r *Run) collection() string {
	return load.Object{Namespace: "default", Content: r.content}.Collection()
}

// plural is the resource of the collection, and relayOf its name for relays.
func (r *Run) plural() string {
	if r.content == load.ConfigMap {
		return "configmaps"
	}
	return load.Plural
}

func (r *Run) relayOf() string {
	if r.content == load.ConfigMap {
		return r.plural()
	}
	return load.Plural + "." + load.Group
}

// large is the content of objects of 2 KB, as far as there is one.
func (r *Run) large() load.Content {
	if r.content == load.ConfigMap {
		return r.content
	}
	return load.TwoKilobytes
}

// define makes the custom resource if that is what is used, and waits until there can be objects.
func (r *Run) define(ctx context.Context) error {
	if r.content != load.ConfigMap {
		return define(ctx, r.Target)
	}
	conn, err := connection(ctx, r.Target)
	if err != nil {
		return err
	}
	defer conn.Close()
	return served(ctx, conn, load.Object{Content: r.content})
}

// relayWithin is how long a relay may need until it has mirrored everything.
const relayWithin = time.Minute

// relayed runs a relay before the run's server, until stop is called, which also removes its
// data. It has mirrored the resource.
func (r *Run) relayed(ctx context.Context) (relay *peer.Server, stop func() error, err error) {
	dir := filepath.Join(filepath.Dir(r.dir), fmt.Sprintf("%s-relay-%s-%d", filepath.Base(r.dir), r.Case, r.Nth))
	front, err := peer.NewFront(ctx, r.Server, dir+"-front")
	if err != nil {
		return nil, nil, err
	}
	relay, err = r.Relay.StartRelay(ctx, r.Server, front, dir, "--resources", r.relayOf())
	if err != nil {
		front.Cut()
		return nil, nil, err
	}
	stop = func() error {
		defer front.Cut()
		return errors.Join(relay.Stop(), os.RemoveAll(dir))
	}
	if _, err := relay.Complete(ctx, relayWithin); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return relay, stop, nil
}

// cpuOf runs work and says what CPU some servers used meanwhile.
func cpuOf(work func() error, servers ...*peer.Server) ([]time.Duration, error) {
	used := make([]time.Duration, len(servers))
	look := func(sign time.Duration) error {
		for i, s := range servers {
			u, err := s.Usage()
			if err != nil {
				return err
			}
			used[i] += sign * u.CPU
		}
		return nil
	}
	if err := look(-1); err != nil {
		return nil, err
	}
	return used, errors.Join(work(), look(1))
}

// lists returns how many lists of the resource the run's server has answered.
func (r *Run) lists(ctx context.Context) (float64, error) {
	return r.Metric(ctx, "apiserver_request_total", `verb="LIST"`, fmt.Sprintf("resource=%q", r.plural()), `code="200"`)
}

// relayReads returns how often a relay has listed its upstream.
func relayReads(ctx context.Context, relay *peer.Server) (float64, error) {
	return relay.Metric(ctx, "gapless_relay_upstream_reads_total", `verb="list"`)
}

// relayAt is the path of a watch of a collection from a resourceVersion.
func relayAt(collection, version string) string {
	return load.Query(collection, "watch", "1", "timeoutSeconds", "3600", "resourceVersion", version)
}

// connection opens one connection over HTTP/1.1.
func connection(ctx context.Context, t wire.Target) (wire.Conn, error) {
	return t.Dial(ctx, wire.HTTP1)
}
