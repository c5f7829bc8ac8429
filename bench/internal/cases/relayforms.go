package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

// asServed is how much more CPU than serve a relay may use for a list of built-in kinds.
const asServed = 1.2

// relayedForm is a form of lists.
type relayedForm struct {
	name, accept string
	gzip         bool
}

func relayedForms() []relayedForm {
	const of = ";g=meta.k8s.io;v=v1"
	return []relayedForm{
		{name: "json"},
		{name: "gzip", gzip: true},
		{name: "protobuf", accept: load.Protobuf},
		{name: "table", accept: "application/json;as=Table" + of},
		{name: "metadata", accept: "application/json;as=PartialObjectMetadataList" + of},
	}
}

// relayForms is what lists of built-in kinds cost a relay, compared with serve, in each form.
func relayForms() Case {
	c := Case{
		Name: "relay-forms-kinds", Title: "LIST of 3 000 ConfigMaps, which were changed while they were mirrored", Relay: true,
		Kinds: true, Fresh: true,
		Stage: Definition, Run: runRelayForms,
	}
	for _, f := range relayedForms() {
		c.Metrics = append(c.Metrics,
			Metric{Name: f.name, Unit: "of serve's CPU", Goal: AtMost(asServed)},
			Metric{Name: f.name + "-relay", Unit: "ms/list"}, Metric{Name: f.name + "-serve", Unit: "ms/list"}, Metric{
				Name: f.name + "-alone", Unit: "ms/list",
			})
	}
	return c
}

// runRelayForms lists the same ConfigMaps from a relay before the run's server, from that server, and from serve.
func runRelayForms(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	relay, stop, err := r.relayed(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	n := max(r.Scale.Objects*3/10, 300) // a list of less than 128 KiB is not compressed
	if err := r.changedMaps(ctx, r.Server, n); err != nil {
		return s, err
	}
	program := r.Relay
	program.Name = peer.Gapless
	serve, err := program.Start(ctx, r.dir+"-serve")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, serve.Stop()) }()
	if err := r.changedMaps(ctx, serve, n); err != nil {
		return s, err
	}
	for _, form := range relayedForms() {
		for _, of := range []struct {
			suffix string
			server *peer.Server
		}{{"-relay", relay}, {"-serve", serve}, {"-alone", r.Server}} {
			cpu, err := r.listsAs(ctx, of.server, form, of.suffix)
			if err != nil {
				return s, fmt.Errorf("%s of %s: %w", form.name, of.server.Name, err)
			}
			s.Values[form.name+of.suffix] = milliseconds(cpu)
		}
		s.Values[form.name] = s.Values[form.name+"-relay"] / max(s.Values[form.name+"-serve"], 0.001)
	}
	return s, nil
}

// changedMaps creates ConfigMaps, and changes each of them once, so that a relay has them from its watch.
func (r *Run) changedMaps(ctx context.Context, of *peer.Server, n int) error {
	all := make([]*load.Writer, n)
	for i := range all {
		all[i] = &load.Writer{
			Key: i, Object: load.Object{Namespace: "default", Name: fmt.Sprintf("changed-%06d", i), Content: load.ConfigMap},
		}
	}
	if err := load.Make(ctx, of.Target, 16, all); err != nil {
		return err
	}
	return load.Each(ctx, of.Target, 16, all, (*load.Writer).Update)
}

// listsAs returns the CPU that a server uses for a list in a form, of any state, after the first.
func (r *Run) listsAs(ctx context.Context, of *peer.Server, form relayedForm, name string) (time.Duration, error) {
	conn, err := connection(ctx, of.Target)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	reader := &load.Reader{Conn: conn, List: load.List{Path: r.collection(), Version: "0", Gzip: form.gzip, Accept: form.accept}}
	for range 2 { // a relay that does not know the columns passes the first on
		if _, err := reader.Read(); err != nil {
			return 0, err
		}
	}
	profiled := r.profile(ctx, of, "-"+form.name+name, relayProfile)
	lists := 0
	used, err := cpuOf(func() error {
		for began := time.Now(); lists == 0 || time.Since(began) < r.Scale.For; lists++ {
			if _, err := reader.Read(); err != nil {
				return err
			}
		}
		return nil
	}, of)
	if err = errors.Join(err, profiled()); err != nil {
		return 0, err
	}
	return used[0] / time.Duration(lists), nil
}
