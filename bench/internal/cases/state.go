package cases

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

const megabyte = 1e6

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// runStart measures how long a start on an empty directory takes until the API of
// custom resources answers, and until a new one is served.
func runStart(ctx context.Context, r *Run) (Sample, error) {
	var err error
	if r.Server, err = r.Program.Start(ctx, r.dir); err != nil {
		return Sample{}, err
	}
	s := Sample{Values: map[string]float64{"ready": milliseconds(r.Ready)}}
	err = define(ctx, r.Target)
	s.Values["served"] = milliseconds(time.Since(r.Began))
	return s, errors.Join(err, r.remove())
}

// runMemory measures what is resident after a start and with the objects.
func runMemory(ctx context.Context, r *Run) (Sample, error) {
	s := Sample{Values: map[string]float64{}}
	var err error
	if r.Server, err = r.Program.Start(ctx, r.dir); err != nil {
		return s, err
	}
	err = func() error {
		idle, err := r.Settled(ctx, r.Scale.Quiet)
		if err != nil {
			return err
		}
		if err := define(ctx, r.Target); err != nil {
			return err
		}
		if err := r.fill(ctx, r.Scale.Objects); err != nil {
			return err
		}
		filled, err := r.Settled(ctx, r.Scale.Quiet)
		s.Values["idle"], s.Values["filled"] = float64(idle)/megabyte, float64(filled)/megabyte
		return err
	}()
	return s, errors.Join(err, r.remove())
}

// runCreate measures creates of one content by a number of clients.
func runCreate(content load.Content, n int) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		return r.write(ctx, n, func(prefix string, w *load.Writer, i int) error {
			w.Object = load.Object{
				Namespace: "default", Name: fmt.Sprintf("%s-%s-%03d-%06d", prefix, r.unique(), w.Key, i), Content: content,
			}
			return w.Create()
		})
	}
}

// runPatch measures patches of one object by a number of clients.
func runPatch(n int) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		n := min(n, r.Scale.Hot)
		hot := load.Object{Namespace: "default", Name: "hot-" + r.unique()}
		made := false // by the first write: the warm-up begins with one client
		return r.write(ctx, n, func(_ string, w *load.Writer, _ int) error {
			w.Object = hot
			if made {
				return w.Patch()
			}
			made = true
			return w.Create()
		})
	}
}

// write measures writes of a number of clients, each of which has a connection of its
// own and waits for its answers. op is called first for the first client alone, then
// for some writes to warm up, and then for those that count. What a busy reference server
// refuses is counted and not an error: its writers of one object retry against each other,
// and some of them until the request's time is over (504).
func (r *Run) write(ctx context.Context, n int, op func(prefix string, w *load.Writer, i int) error) (Sample, error) {
	writers, err := load.Dial(ctx, r.Target, n, load.Object{})
	if err != nil {
		return Sample{}, err
	}
	defer writers.Close()
	if err := op("first", writers[0], 0); err != nil {
		return Sample{}, err
	}
	return r.timed(ctx, writers, op)
}

// timed measures writes of writers that are connected: some to warm up, and then those
// that count.
func (r *Run) timed(ctx context.Context, writers load.Writers,
	op func(prefix string, w *load.Writer, i int) error,
) (Sample, error) {
	n := len(writers)
	var refused atomic.Int64
	try := func(prefix string, worker, i int) error {
		err := op(prefix, writers[worker], i)
		if status, ok := errors.AsType[*wire.StatusError](err); ok && status.Status >= http.StatusInternalServerError &&
			r.Name == peer.Upstream {
			refused.Add(1)
			return nil
		}
		return err
	}
	err := load.InParallel(ctx, n, 4*n, func(_ context.Context, worker, i int) error { return try("warm", worker, i) })
	if err != nil {
		return Sample{}, err
	}
	for key := range writers {
		writers[key].Latency = &load.Histogram{}
	}
	refused.Store(0)
	var ops int64
	var u used
	allocs, err := r.Allocs(ctx, func() (err error) {
		u, err = r.measure(ctx, func() (err error) {
			ops, err = during(ctx, r.Scale.For, n, func(worker, i int) error { return try("made", worker, i) })
			return err
		})
		return err
	})
	if err != nil {
		return Sample{}, err
	}
	ops = max(ops-refused.Load(), 1)
	s := Sample{Values: map[string]float64{"rate": float64(ops) / u.wall.Seconds(), "refused": float64(refused.Load())}}
	u.into(s, float64(ops))
	s.Values["allocs"] = float64(allocs) / float64(ops)
	all := &load.Histogram{}
	for key := range writers {
		all.Merge(writers[key].Latency)
	}
	s.Values["p50"], s.Values["p99"] = milliseconds(all.Quantile(0.5)), milliseconds(all.Quantile(0.99))
	return s, nil
}

// during calls fn from n goroutines for a time, at least once from each, and
// returns how often.
func during(ctx context.Context, d time.Duration, n int, fn func(worker, i int) error) (int64, error) {
	end := time.Now().Add(d)
	var ops atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	for worker := range n {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if errs[worker] = fn(worker, i); errs[worker] != nil {
					return
				}
				ops.Add(1)
				if time.Now().After(end) {
					return
				}
			}
		})
	}
	wg.Wait()
	return ops.Load(), errors.Join(errors.Join(errs...), context.Cause(ctx))
}

// reading is a way of listing.
type reading struct {
	clients, limit int
	gzip, stream   bool
	accept         string // media type; empty is JSON
}

// readers opens a connection for each client. LISTs go over HTTP/1.1; streaming
// lists over HTTP/2, where they can be ended without ending the connection. The
// whole list is asked for with resourceVersion=0, which upstream serves at its
// cheapest; pages without, because with 0 it ignores the limit.
func (r reading) readers(ctx context.Context, t wire.Target, path string) ([]*load.Reader, func(), error) {
	proto, list := wire.HTTP1, load.List{Path: path, Limit: r.limit, Gzip: r.gzip, Stream: r.stream, Accept: r.accept}
	if r.stream {
		proto = wire.HTTP2
	} else if r.limit == 0 {
		list.Version = "0"
	}
	var all []*load.Reader
	hangUp := func() {
		for _, one := range all {
			one.Conn.Close()
		}
	}
	for range r.clients {
		conn, err := t.Dial(ctx, proto)
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		all = append(all, &load.Reader{Conn: conn, List: list})
	}
	return all, hangUp, nil
}

// errShort is a list that lacks something.
var errShort = errors.New("the list is not whole")

// cacheLag is how long upstream's cache, which resourceVersion=0 reads, may be behind
// what was written.
const cacheLag = 10 * time.Second

// complete lists until all objects are there, and checks what it gets.
func complete(ctx context.Context, reader *load.Reader, objects int) error {
	for end := time.Now().Add(cacheLag); ; {
		items, err := reader.Verify()
		switch {
		case err != nil:
			return err
		case items >= objects:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%w: %d objects instead of %d", errShort, items, objects)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// runList measures one way of listing. One list before the measurement is parsed
// and checked; those in it must have as many bytes.
func runList(how reading) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) { return r.list(ctx, how) }
}

func (r *Run) list(ctx context.Context, how reading) (Sample, error) {
	readers, hangUp, err := how.readers(ctx, r.Target, r.collection())
	if err != nil {
		return Sample{}, err
	}
	defer hangUp()
	if err := complete(ctx, readers[0], r.filled); err != nil {
		return Sample{}, err
	}
	return r.read(ctx, how)
}

// read is list of a server of which it is known what it answers.
func (r *Run) read(ctx context.Context, how reading) (Sample, error) {
	readers, hangUp, err := how.readers(ctx, r.Target, r.collection())
	if err != nil {
		return Sample{}, err
	}
	defer hangUp()
	size, err := readers[0].Read()
	if err != nil {
		return Sample{}, err
	}
	var ops int64
	latency := make([]load.Histogram, how.clients)
	u, err := r.measure(ctx, func() (err error) {
		ops, err = during(ctx, r.Scale.For, how.clients, func(worker, _ int) error {
			began := time.Now()
			n, err := readers[worker].Read()
			latency[worker].Add(time.Since(began))
			if err == nil && n < size-size/100 { // continue tokens and gzip differ a little
				err = fmt.Errorf("%w: %d bytes instead of %d", errShort, n, size)
			}
			return err
		})
		return err
	})
	s := Sample{Values: map[string]float64{}}
	u.into(s, float64(ops)*1000) // milliseconds
	s.Values["size"] = float64(size) / megabyte
	all := &load.Histogram{}
	for i := range latency {
		all.Merge(&latency[i])
	}
	s.Values["p50"] = milliseconds(all.Quantile(0.5))
	return s, err
}

// memoryReserve is what concurrent lists must leave of the machine's memory: below that
// the server is killed, and its figures are those until then.
const memoryReserve = 1500 << 20

// runConcurrentLists lets many clients list the same collection at once.
func runConcurrentLists(ctx context.Context, r *Run) (Sample, error) {
	readers, hangUp, err := reading{clients: r.Scale.Listers}.readers(ctx, r.Target, r.collection())
	if err != nil {
		return Sample{}, err
	}
	defer hangUp()
	for _, one := range readers {
		one.List.Version = "" // a client that lists again wants the newest
	}
	size, err := readers[0].Read()
	if err != nil {
		return Sample{}, err
	}
	if err := r.ResetPeak(); err != nil {
		return Sample{}, err
	}
	release := r.Guard(memoryReserve)
	began := time.Now()
	var cut atomic.Int64
	_, err = during(ctx, 0, len(readers), func(worker, _ int) error {
		if n, err := readers[worker].Read(); err != nil || n < size-size/100 {
			cut.Add(1)
		}
		return nil
	})
	s := Sample{Values: map[string]float64{"time": time.Since(began).Seconds(), "cut": float64(cut.Load())}}
	peak, killed := release()
	s.Values["peak"] = float64(peak) / megabyte
	if errors.Is(killed, peer.ErrMemory) && r.Name == peer.Upstream {
		s.Notes = append(s.Notes, "upstream "+killed.Error()+": time and peak are those until then")
		killed = nil
	}
	if r.Name == peer.Gapless && cut.Load() > 0 {
		err = errors.Join(err, fmt.Errorf("gapless: %d of %d bodies were cut off", cut.Load(), len(readers)))
	}
	return s, errors.Join(err, killed)
}
