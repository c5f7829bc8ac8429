package cases

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Goals for built-in kinds, whatever they cost kube-apiserver.
const (
	mapCost, podCost     = 90, 150 // microseconds of CPU per create
	stockEvents          = 1.5     // times what a TLS write of an event needs
	floodedP99           = 150     // milliseconds
	idleHTTP1, idleHTTP2 = 16, 8   // KB
	stockLists           = 1.2     // times what a stock TLS server needs
)

// builtin are the cases with built-in kinds, against kube-apiserver: what most users have. They are those of the custom
// resource, with ConfigMaps of 1 KB.
func builtin() []Case {
	maps := func(c Case, goals ...Goal) Case {
		c.Name, c.Title, c.Kinds = "kinds-"+c.Name, c.Title+", ConfigMaps", true
		c.Metrics = slices.Clone(c.Metrics)
		for i, goal := range goals {
			c.Metrics[i].Goal = goal
		}
		return c
	}
	all := []Case{maps(starting()), maps(memory())}
	for _, of := range []struct {
		name, title string
		content     load.Content
		clients     int
		cpu         float64
		rate        Goal
	}{
		{"create-configmap-16", "create of a ConfigMap", load.ConfigMap, 16, mapCost, Goal{}},
		{"create-configmap-256", "create of a ConfigMap", load.ConfigMap, 256, mapCost, Times(10)},
		{"create-pod-16", "create of a Pod", load.Pod, 16, podCost, Goal{}},
	} {
		all = append(all, Case{
			Name: of.name, Title: of.title + ", " + clients(of.clients), Kinds: true, Stage: Definition,
			Run: runCreate(of.content, of.clients), Metrics: []Metric{
				{Name: "cpu", Unit: "us", Goal: AtMost(of.cpu)},
				{Name: "rate", Unit: "/s", Goal: of.rate},
				{Name: "p99", Unit: "ms"},
				{Name: "allocs"},
			},
		})
	}
	for _, c := range watching() {
		switch c.Name {
		case "watch-h1":
			all = append(all, maps(c))
		case "watch-h2":
			all = append(all, maps(c, c.Metrics[0].Goal, c.Metrics[1].Goal, AtMost(floodedP99)))
		case "watch-one":
			all = append(all, maps(c, AtMost(0), AtMost(floodedP99)))
		case "watch-paced":
			c.Run = runStockPaced
			c.Metrics = append(slices.Clone(c.Metrics), Metric{Name: "stock", Unit: "of stock's CPU", Goal: AtMost(stockEvents)})
			all = append(all, maps(c, Goal{}))
		}
	}
	all = append(all, mapLists()...)
	recent := maps(resume())
	recent.Title = "1 000 resumes, 500 events each, ConfigMaps"
	all = append(all, recent)
	for i, c := range idling() {
		all = append(all, maps(c, AtMost([]float64{idleHTTP1, idleHTTP2}[i])))
	}
	return all
}

// mapLists are lists of ConfigMaps, those of one answer beside a stock server of the same bytes.
func mapLists() []Case {
	var all []Case
	for _, of := range []struct {
		name, title string
		read        reading
		peer        Goal // of the CPU; zero: stock's
	}{
		{"kinds-list", "LIST of 10 000 ConfigMaps", reading{}, Goal{}},
		{"kinds-list-protobuf", "LIST of 10 000 ConfigMaps, protobuf", reading{accept: load.Protobuf}, Goal{}},
		{"kinds-list-gzip", "LIST of 10 000 ConfigMaps, gzip", reading{gzip: true}, Goal{}},
		{"kinds-list-limit", "LIST of 10 000 ConfigMaps, limit=500", reading{limit: 500}, Ratio(1. / 20)},
		{"kinds-list-stream", "streaming initial list of 10 000 ConfigMaps", reading{stream: true}, Ratio(1. / 20)},
	} {
		of.read.clients = 1
		c := Case{
			Name: of.name, Title: of.title, Kinds: true, Stage: Objects, Run: runList(of.read),
			Metrics: []Metric{{Name: "cpu", Unit: "ms", Goal: of.peer}, {Name: "p50", Unit: "ms"}, {Name: "size", Unit: "MB"}},
		}
		if of.peer == (Goal{}) {
			c.Run = runStockList(of.read)
			c.Metrics = append(c.Metrics, Metric{Name: "stock", Unit: "of stock's CPU", Goal: AtMost(stockLists)})
		}
		all = append(all, c)
	}
	return all
}

// runStockList measures one way of listing, and how many times as much it costs the server as a stock TLS server that
// has the answer in memory.
func runStockList(how reading) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (s Sample, err error) {
		if s, err = r.list(ctx, how); err != nil {
			return s, err
		}
		stock, err := r.answering(ctx, how, load.Query(r.collection(), "resourceVersion", "0"))
		if err != nil {
			return s, err
		}
		err = r.beside(ctx, stock, func(beside *Run) error {
			alone, err := beside.read(ctx, how)
			s.Values["stock"] = s.Values["cpu"] / alone.Values["cpu"]
			return err
		})
		return s, err
	}
}

// runStockPaced is runPaced, and says how many times as much an event costs the server as a TLS write of as many bytes, which
// a list of one object has.
func runStockPaced(ctx context.Context, r *Run) (Sample, error) {
	s, err := runPaced(ctx, r)
	if err != nil {
		return s, err
	}
	stock, err := r.answering(ctx, reading{}, load.Query(r.collection(), "limit", "1"))
	if err != nil {
		return s, err
	}
	stock.Every = pace
	err = r.beside(ctx, stock, func(beside *Run) error {
		alone, err := beside.fanOut(ctx, crowd{}.watchers(r.Scale), r.Scale.Paced)
		s.Values["stock"] = s.Values["cpu"] / alone
		return err
	})
	return s, err
}

// fanOut watches a stock server until it has written so many events to each of some watchers, and returns the microseconds of
// its CPU for each event.
func (r *Run) fanOut(ctx context.Context, watchers, events int) (float64, error) {
	loop, err := wire.NewLoop(r.Target)
	if err != nil {
		return 0, err
	}
	defer loop.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := func(err error) { cancel(fmt.Errorf("the stock server ended a watch: %w", cmp.Or(err, io.EOF))) }
	var got counter
	for range watchers {
		if err := loop.Start(ctx, wire.Request{Path: "/?watch"}, &got, ended); err != nil {
			return 0, err
		}
	}
	if err := got.wait(ctx, 1); err != nil { // of the bytes of a tick
		return 0, err
	}
	body, err := os.Stat(r.Body)
	if err != nil {
		return 0, err
	}
	began := got.Load()
	u, err := r.measure(ctx, func() error { return got.wait(ctx, began+body.Size()*int64(watchers*events)) })
	const tick = 10 * time.Millisecond // the least that the system counts
	return float64(max(u.cpu, tick).Nanoseconds()) / 1000 / (float64(got.Load()-began) / float64(body.Size())), err
}

// counter counts the bytes that are written to it.
type counter struct{ atomic.Int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	return len(b), nil
}

// wait returns when n bytes were counted.
func (c *counter) wait(ctx context.Context, n int64) error {
	tick := time.NewTicker(pace / 100)
	defer tick.Stop()
	for c.Load() < n {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// answering is a stock server that answers with what the server answers at a path.
func (r *Run) answering(ctx context.Context, how reading, path string) (stock peer.Program, err error) {
	stock = r.stock
	if how.gzip {
		stock.Coding = "gzip"
	}
	if stock.Certificates, err = peer.NewCertificates(r.dir + "-stock-certificates"); err != nil {
		return stock, err
	}
	conn, err := r.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return stock, err
	}
	defer conn.Close()
	var body bytes.Buffer
	if _, err := conn.Do(wire.Request{Path: path, Accept: how.accept, Gzip: how.gzip}, &body); err != nil {
		return stock, err
	}
	stock.Body = filepath.Join(r.dir, "..", filepath.Base(r.dir)+".body")
	return stock, os.WriteFile(stock.Body, body.Bytes(), 0o600)
}

// beside runs work on a stock server.
func (r *Run) beside(ctx context.Context, stock peer.Program, work func(*Run) error) (err error) {
	beside := &Run{Program: stock, Scale: r.Scale, content: r.content, dir: r.dir + "-stock"}
	if beside.Server, err = stock.Start(ctx, beside.dir); err != nil {
		return err
	}
	return errors.Join(work(beside), beside.remove(), os.Remove(stock.Body))
}
