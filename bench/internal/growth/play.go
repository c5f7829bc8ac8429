package growth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Player measures dimensions.
type Player struct {
	Program peer.Program // gapless
	Dir     string       // for data, on the disk to measure
	Sizes   []int        // instead of those of the dimension; none are below 2
	Most    int          // no dimension grows beyond it; 0 is as far as it says
	Window  time.Duration
	Rounds  int           // windows of an operation, of which the median counts
	Quiet   time.Duration // how long memory must not move to be settled
	Log     io.Writer     // progress, a line per value
}

// Play grows one dimension. What it returns with an error are the sizes that were complete before it.
func (p *Player) Play(ctx context.Context, d Dimension) (m Measured, err error) {
	m.Name = d.Name
	r := &run{Player: p, measured: &m, dir: filepath.Join(p.Dir, d.Name)}
	r.program = p.Program
	r.program.Flags = append(slices.Clone(r.program.Flags), d.flags...)
	defer func() { err = errors.Join(err, r.stop(), os.RemoveAll(r.dir)) }()
	if err := r.start(ctx); err != nil {
		return m, err
	}
	grow, err := d.open(ctx, r)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	sizes := d.Sizes
	if p.Sizes != nil {
		sizes = p.Sizes
	}
	for _, n := range sizes {
		if p.Most > 0 && n > p.Most {
			break
		}
		m.Sizes = append(m.Sizes, n)
		began := time.Now()
		if err := grow(ctx, n); err != nil {
			m.Sizes = m.Sizes[:len(m.Sizes)-1]
			for i := range m.Curves {
				m.Curves[i].Values = m.Curves[i].Values[:min(len(m.Curves[i].Values), len(m.Sizes))]
			}
			return m, fmt.Errorf("%s: %d: %w", d.Name, n, err)
		}
		fmt.Fprintf(p.Log, "%-12s %8d done in %.1fs\n", d.Name, n, time.Since(began).Seconds())
	}
	return m, nil
}

// run is a dimension that grows.
type run struct {
	*Player

	program  peer.Program
	server   *peer.Server
	dir      string
	measured *Measured
	conns    []wire.Conn // HTTP/1.1, for operations
	hangUp   func()
	closers  []func() error // of what stays open from size to size
}

// clients is how many clients work at once, where it is not what grows.
const clients = 16

func (r *run) start(ctx context.Context) error {
	var err error
	if r.server, err = r.program.Start(ctx, r.dir); err != nil {
		return err
	}
	if r.conns, r.hangUp, err = load.Connect(ctx, r.server.Target, clients); err != nil {
		return err
	}
	for _, conn := range r.conns { // a connection without a request is closed after 10 s
		if err := get(conn, "/version"); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stop() error {
	if r.server == nil {
		return nil
	}
	if r.hangUp != nil {
		r.hangUp()
	}
	return r.server.Stop()
}

// close closes what stayed open, the newest first.
func (r *run) close() error {
	var errs []error
	for _, c := range slices.Backward(r.closers) {
		errs = append(errs, c())
	}
	r.closers = nil
	return errors.Join(errs...)
}

// restart stops the server and starts it again, and notes what that cost until it was ready.
func (r *run) restart(ctx context.Context) error {
	if err := r.stop(); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	used, err := r.server.CPU()
	if err != nil {
		return err
	}
	r.put("start until ready", "ms", float64(used.Microseconds())/1000)
	return nil
}

func (r *run) put(operation, unit string, value float64) {
	r.measured.put(operation, unit, value)
	fmt.Fprintf(r.Log, "%-12s %8d %-50s %10.4g %s\n", r.measured.Name, r.measured.Sizes[len(r.measured.Sizes)-1], operation,
		value, unit)
}

// operation is one that is measured. do does it once, the i-th time; settled, which may be nil, waits for what it set off.
type operation struct {
	name    string
	clients int // at most as many as there are connections; 0 is 4
	most    int // how often it may be done in a window; 0 is as often as a window needs
	do      func(conn wire.Conn, i int) error
	settled func() error
}

// cost measures the server's CPU for an operation, in microseconds.
func (r *run) cost(ctx context.Context, o operation) error {
	n, next := cmp.Or(o.clients, 4), 0
	window := func(count int) (time.Duration, error) {
		return r.used(func() error {
			first := next
			next += count
			err := load.InParallel(ctx, n, count, func(_ context.Context, worker, i int) error {
				return o.do(r.conns[worker], first+i)
			})
			if err == nil && o.settled != nil {
				err = o.settled()
			}
			return err
		})
	}
	count := n
	if o.most > 0 {
		count = min(count, o.most)
	}
	for { // which warms up as well
		used, err := window(count)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if used >= r.Window || count == o.most {
			break
		}
		if count *= 2; o.most > 0 {
			count = min(count, o.most)
		}
	}
	each := make([]time.Duration, r.Rounds)
	for i := range each {
		used, err := window(count)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		each[i] = used
	}
	slices.Sort(each)
	r.put(o.name, "us", float64(each[len(each)/2].Nanoseconds())/1000/float64(count))
	return nil
}

// costs measures operations one after the other.
func (r *run) costs(ctx context.Context, all ...operation) error {
	for _, o := range all {
		if err := r.cost(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// used returns the server's CPU time while work is done.
func (r *run) used(work func() error) (time.Duration, error) {
	before, err := r.server.CPU()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := r.server.CPU()
	return after - before, err
}

// fill makes what is missing to n by create, and measures the last quarter of it as an operation.
func (r *run) fill(ctx context.Context, from, n int, name string, create func(conn wire.Conn, i int) error) error {
	all := func(from, to int) error {
		return load.InParallel(ctx, len(r.conns), to-from, func(_ context.Context, worker, i int) error {
			return create(r.conns[worker], from+i)
		})
	}
	last := from + (n-from)*3/4
	if err := all(from, last); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	used, err := r.used(func() error { return all(last, n) })
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if name != "" {
		r.put(name, "us", float64(used.Nanoseconds())/1000/float64(n-last))
	}
	return nil
}

// memory notes what the server holds more than base, for each of n.
func (r *run) memory(ctx context.Context, name string, base int64, n int) error {
	rss, err := r.server.Settled(ctx, r.Quiet)
	if err != nil {
		return err
	}
	r.put(name, "KB", float64(rss-base)/1000/float64(n))
	return nil
}

// watch opens watches over a number of HTTP/2 connections.
func (r *run) watch(ctx context.Context, conns int, version string, watches ...load.Watch) (*load.Crowd, error) {
	return load.Open(ctx, r.server.Target, conns, version, watches)
}

// hot is an object that is written over and over, and the watches that get it.
type hot struct {
	load.Writer

	crowd *load.Crowd
}

// arrived waits until the watches have all that was written.
func (h *hot) arrived(ctx context.Context) error {
	if n := h.crowd.Drained(ctx, time.Minute, func(f *load.Follower) int64 { return h.Seq }); n > 0 {
		return fmt.Errorf("%d watches lack events of %s", n, h.Object.Name)
	}
	return nil
}

// event measures an update of an object with its events to the watches of path; without a path nobody watches.
func (r *run) event(ctx context.Context, name string, o load.Object, path string) (err error) {
	h := &hot{Writer: load.Writer{Object: o, Conn: r.conns[0]}}
	update := func(conn wire.Conn, _ int) error {
		h.Conn = conn
		return h.Update()
	}
	if err := h.Create(); err != nil {
		return err
	}
	op := operation{name: name, clients: 1, do: update}
	if path != "" {
		h.crowd, err = r.watch(ctx, 1, h.Object.Version, load.Watch{Path: path, Follower: load.NewFollower(0, 1, h.Seq)})
		if err != nil {
			return err
		}
		op.settled = func() error { return h.arrived(ctx) }
	}
	err = r.cost(ctx, op)
	if h.crowd != nil {
		err = errors.Join(err, h.crowd.Close())
	}
	return errors.Join(err, h.remove())
}

// remove deletes the object.
func (h *hot) remove() error {
	return do(h.Conn, wire.Request{Method: "DELETE", Path: h.Object.Collection() + "/" + h.Object.Name})
}

// do sends a request whose answer nobody reads.
func do(conn wire.Conn, r wire.Request) error {
	if _, err := conn.Do(r, io.Discard); err != nil {
		return fmt.Errorf("%s %s: %w", cmp.Or(r.Method, "GET"), r.Path, err)
	}
	return nil
}

// get is a read.
func get(conn wire.Conn, path string) error { return do(conn, wire.Request{Path: path}) }

// scattered returns a number below n that follows from i, and does not look like it.
func scattered(i, n int) int {
	x := uint64(i+1) * 0x9e3779b97f4a7c15 //nolint:gosec // it wraps on purpose
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return int(x % uint64(n)) //nolint:gosec // below n
}
