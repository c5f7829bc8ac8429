package cases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// fillers is the number of clients that write the objects whose memory is measured.
const fillers = 16

// dearerMemory is how much more memory objects may need for the managed fields of two
// managers.
const dearerMemory = 1.15

func managedMemory() Case {
	return Case{
		Name: "memory-managed", Title: "resident memory with 10 000 objects of two managers, settled", Once: true,
		Run:     runManagedMemory,
		Metrics: []Metric{{Name: "filled", Unit: "MB", Goal: Ratio(1. / 4)}},
	}
}

func managedPods() Case {
	return Case{
		Name: "memory-managed-pods", Title: "resident memory with 10 000 Pods of two managers, against none", Ours: true,
		Run:     runManagedPods,
		Metrics: []Metric{{Name: "ratio", Goal: AtMost(dearerMemory)}, {Name: "filled", Unit: "MB"}, {Name: "plain", Unit: "MB"}},
	}
}

// population is what a server is filled with.
type population struct {
	name     string // of profiles
	like     load.Object
	managers string // that every object must have in the end
	write    func(all []*load.Writer) error
}

// filledMemory starts a server, fills it, and returns its resident memory in megabytes.
func (r *Run) filledMemory(ctx context.Context, p population) (_ float64, err error) {
	if r.Server, err = r.Program.Start(ctx, r.dir); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.remove()) }()
	if err := define(ctx, r.Target); err != nil {
		return 0, err
	}
	all := make([]*load.Writer, r.Scale.Objects)
	for i := range all {
		all[i] = &load.Writer{Key: i, Object: p.like}
		all[i].Object.Name = fmt.Sprintf("managed-%06d", i)
	}
	if err := p.write(all); err != nil {
		return 0, err
	}
	// gapless gives memory back up to 2 s after its work (cmd/gapless/memory/memory.go, two ticks),
	// which is as long as Quiet: a ratio near 1 needs more.
	filled, err := r.Settled(ctx, 2*r.Scale.Quiet)
	if err != nil {
		return 0, err
	}
	if r.profiles != "" && r.Profiles != "" {
		path := filepath.Join(r.profiles, fmt.Sprintf("%s-%d-%s.heap.pprof", r.Case, r.Nth, p.name))
		if err := fetch(ctx, r.Profiles+"/debug/pprof/heap", path); err != nil {
			return 0, err
		}
	}
	conn, err := r.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	counts, err := load.Managers(conn, p.like.Collection())
	if want := map[string]int{p.managers: len(all)}; err == nil && !maps.Equal(counts, want) {
		err = fmt.Errorf("on %s: objects by their managers are %v instead of %v", r.Name, counts, want)
	}
	return float64(filled) / megabyte, err
}

// runManagedMemory measures memory with objects that a user and a controller apply, about
// half of the fields each.
func runManagedMemory(ctx context.Context, r *Run) (Sample, error) {
	p := population{name: "applied", like: load.Object{Namespace: "default"}, managers: "Apply controller, Apply user"}
	p.write = func(all []*load.Writer) error {
		for _, part := range []struct {
			manager string
			content load.Content
		}{{"user", load.UserPart}, {"controller", load.ControllerPart}} {
			for _, w := range all {
				w.Object.Manager, w.Object.Content = part.manager, part.content
			}
			if err := load.Each(ctx, r.Target, fillers, all, (*load.Writer).Apply); err != nil {
				return err
			}
		}
		return nil
	}
	filled, err := r.filledMemory(ctx, p)
	return Sample{Values: map[string]float64{"filled": filled}}, err
}

// runManagedPods measures memory with pods that a controller creates and annotates and to
// which a kubelet gives a status: once with the managed fields of both, and once with the
// same writes of which the annotation removes them.
func runManagedPods(ctx context.Context, r *Run) (Sample, error) {
	s := Sample{Values: map[string]float64{}}
	for _, kind := range []struct {
		name, managers string
		annotate       func(w *load.Writer) error
	}{
		{"plain", "", (*load.Writer).AnnotateUnmanaged},
		{"filled", "Update controller, Update kubelet status", (*load.Writer).Annotate},
	} {
		p := population{
			name: kind.name, like: load.Object{Namespace: "default", Content: load.Pod, Manager: "controller"},
			managers: kind.managers,
		}
		p.write = func(all []*load.Writer) error {
			for _, write := range []func(*load.Writer) error{(*load.Writer).Create, kind.annotate, (*load.Writer).Report} {
				if err := load.Each(ctx, r.Target, fillers, all, write); err != nil {
					return err
				}
			}
			return nil
		}
		var err error
		if s.Values[kind.name], err = r.filledMemory(ctx, p); err != nil {
			return s, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	s.Values["ratio"] = s.Values["filled"] / s.Values["plain"]
	return s, nil
}
