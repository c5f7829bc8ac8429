package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Bench runs cases.
type Bench struct {
	Programs []peer.Program // in the order of their turns
	Kube     peer.Program   // kube-apiserver, for the cases with built-in kinds; it needs no path without them
	Stock    peer.Program   // cmd/stock, for the same cases
	Relay    peer.Program   // gapless, for the cases of a relay
	Scale    Scale
	Select   *regexp.Regexp // of names; nil selects all but those that are Asked
	Dir      string         // for data, on the disk to measure
	Profiles string         // directory that gets CPU profiles of gapless; may be empty
	Log      io.Writer      // progress, a line per run

	stage  Stage
	kinds  bool   // whether staged are for cases with built-in kinds
	staged []*Run // one per program; the servers of stage
	count  int    // of directories
}

// NeedsKube reports whether a selected case needs kube-apiserver.
func (b *Bench) NeedsKube() bool {
	upstream := slices.ContainsFunc(b.Programs, func(p peer.Program) bool { return p.Name == peer.Upstream })
	return slices.ContainsFunc(All(), func(c Case) bool { return (c.Kinds && upstream || c.Etcd) && b.Plays(c) })
}

// Plays reports whether a case is selected.
func (b *Bench) Plays(c Case) bool {
	if b.Select == nil {
		return !c.Asked
	}
	return b.Select.MatchString(c.Name)
}

// Run runs the selected cases and returns what they measured. Cases that fail are
// in the report and in the error, and the others run nonetheless.
func (b *Bench) Run(ctx context.Context) (*Report, error) {
	report := &Report{}
	var errs []error
	for _, c := range All() {
		if !b.Plays(c) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if err := b.play(ctx, c, report); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			fmt.Fprintf(b.Log, "%s FAILED: %v\n", c.Name, err)
		}
	}
	errs = append(errs, b.clear(), context.Cause(ctx))
	return report, errors.Join(errs...)
}

// play runs one case on each server.
func (b *Bench) play(ctx context.Context, c Case, report *Report) error {
	if c.Stage == Nothing || c.Fresh || c.Stage != b.stage || c.Kinds != b.kinds {
		if err := b.clear(); err != nil {
			return err
		}
	}
	repeats := b.Scale.Repeats
	if c.Once {
		repeats = 1
	}
	row := report.row(c)
	for nth := range repeats {
		for i, p := range b.Programs {
			if c.Ours && p.Name != peer.Gapless {
				continue
			}
			if c.Fresh {
				if err := b.clear(); err != nil {
					return err
				}
			}
			r, err := b.prepare(ctx, c, i)
			if err != nil {
				return errors.Join(err, b.clear())
			}
			r.Case, r.Nth = c.Name, nth
			began := time.Now()
			sample, err := c.Run(ctx, r)
			if err != nil {
				// The state of this server is unknown: the next case gets a new one.
				return errors.Join(fmt.Errorf("on %s: %w", r.Program.Name, err), b.clear())
			}
			row.add(p.Name, sample)
			fmt.Fprintf(b.Log, "%-20s %-8s %s (%.1fs)\n", c.Name, r.Program.Name, sample, time.Since(began).Seconds())
		}
	}
	return nil
}

// prepare returns the run of a program at the stage of a case, and starts its server if there
// is none.
func (b *Bench) prepare(ctx context.Context, c Case, i int) (*Run, error) {
	stage, p := c.Stage, b.Programs[i]
	if (c.Kinds || c.Etcd) && p.Name == peer.Upstream {
		p = b.Kube
	}
	b.count++
	r := &Run{
		Program: p, Relay: b.Relay, Scale: b.Scale, profiles: b.Profiles, kube: b.Kube, stock: b.Stock, etcd: peer.EtcdOf(b.Kube),
		dir: filepath.Join(b.Dir, fmt.Sprintf("%03d-%s", b.count, p.Name)),
	}
	if c.Kinds || c.Etcd {
		r.content = load.ConfigMap
	}
	if stage == Nothing {
		return r, nil
	}
	if b.staged == nil {
		b.staged, b.stage, b.kinds = make([]*Run, len(b.Programs)), stage, c.Kinds
	}
	if b.staged[i] != nil {
		return b.staged[i], nil
	}
	var err error
	if r.Server, err = p.Start(ctx, r.dir); err != nil {
		return nil, err
	}
	b.staged[i] = r
	if err := define(ctx, r.Target); err != nil {
		return nil, fmt.Errorf("on %s: %w", p.Name, err)
	}
	switch stage {
	case Nothing, Definition:
	case Objects:
		err = r.fill(ctx, b.Scale.Objects)
	case Shards:
		r.Shards, err = shards(ctx, r.Server, b.Scale.Crowd)
	}
	if err != nil {
		return nil, fmt.Errorf("on %s: %w", p.Name, err)
	}
	return r, nil
}

// shards creates n objects, each in a namespace of its own and with a label and a
// field that no other has.
func shards(ctx context.Context, s *peer.Server, n int) ([]*load.Writer, error) {
	all := make([]*load.Writer, n)
	for i := range all {
		all[i] = &load.Writer{
			Key: i, Object: load.Object{Namespace: namespace(i), Name: fmt.Sprintf("shard-%05d", i), Shard: shard(i)},
		}
	}
	if s.Name != peer.Upstream { // the reference server has no namespaces, and takes every name
		if err := makeNamespaces(ctx, s, n, namespace); err != nil {
			return nil, err
		}
	}
	return all, load.Make(ctx, s.Target, 16, all)
}

// makeNamespaces creates n namespaces.
func makeNamespaces(ctx context.Context, s *peer.Server, n int, name func(int) string) error {
	conns, hangUp, err := load.Connect(ctx, s.Target, 16)
	if err != nil {
		return err
	}
	defer hangUp()
	if err := load.InParallel(ctx, 16, n, func(_ context.Context, worker, i int) error {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name(i))
		_, err := conns[worker].Do(wire.Request{Method: http.MethodPost, Path: "/api/v1/namespaces", Body: body}, io.Discard)
		return err
	}); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	return nil
}

func namespace(i int) string { return fmt.Sprintf("ns-%05d", i) }

func shard(i int) string { return "s" + strconv.Itoa(i) }

// clear stops the servers of the stage and removes their data.
func (b *Bench) clear() error {
	var errs []error
	for _, r := range slices.Backward(b.staged) {
		if r != nil {
			errs = append(errs, r.remove())
		}
	}
	b.staged, b.stage, b.kinds = nil, Nothing, false
	return errors.Join(errs...)
}

// remove stops a run's server and removes its data. Its log stays.
func (r *Run) remove() error {
	return errors.Join(r.Stop(), os.RemoveAll(r.dir))
}
