package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

const (
	// collectWriters is the number of clients that write while dependents are collected.
	collectWriters = 4
	// collectPause is the interval of the writes of each of them.
	collectPause = 2 * time.Millisecond
	// collectPoll is how often it is looked whether all are gone.
	collectPoll = 20 * time.Millisecond
	// collectWithin bounds that, for a collector that does not work.
	collectWithin = 5 * time.Minute
)

// collecting is garbage collection, which the reference server does not have.
func collecting() Case {
	return Case{
		Name: "collect-10000", Title: "garbage collection of 10 000 dependents, 4 other writers", Stage: Definition, Ours: true,
		Run: runCollect,
		Metrics: []Metric{
			{Name: "time", Unit: "s", Goal: AtMost(5)},
			{Name: "slower", Unit: "x", Goal: AtMost(2)},
			{Name: "before", Unit: "ms"},
			{Name: "during", Unit: "ms"},
			{Name: "cpu", Unit: "us/dependent"},
		},
	}
}

// runCollect deletes the owner of many ConfigMaps while others write. It measures how long
// it takes until all are gone, and the latency of the others' writes before and meanwhile.
func runCollect(ctx context.Context, r *Run) (Sample, error) {
	s := Sample{Values: map[string]float64{}}
	like := load.Object{Namespace: r.unique(), Content: load.ConfigMap}
	conn, err := r.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	owner, err := r.dependents(ctx, conn, like)
	if err != nil {
		return s, err
	}
	others, err := load.NewWriters(ctx, r.Target, collectWriters, load.Object{
		Namespace: "default", Name: r.unique(), Content: load.ConfigMap,
	})
	if err != nil {
		return s, err
	}
	defer others.Close()
	before, err := meanwhile(ctx, others, func() error { return wait(ctx, r.Scale.For) })
	if err != nil {
		return s, err
	}
	var during *load.Histogram
	var took time.Duration
	u, err := r.measure(ctx, func() (err error) {
		during, err = meanwhile(ctx, others, func() error {
			began := time.Now()
			defer func() { took = time.Since(began) }()
			remove := wire.Request{Method: http.MethodDelete, Path: owner + "?propagationPolicy=Background"}
			if _, err := conn.Do(remove, io.Discard); err != nil {
				return err
			}
			return collected(ctx, conn, like.Collection())
		})
		return err
	})
	if err != nil {
		return s, err
	}
	u.into(s, float64(r.Scale.Objects))
	s.Values["time"] = took.Seconds()
	s.Values["before"], s.Values["during"] = milliseconds(before.Quantile(0.99)), milliseconds(during.Quantile(0.99))
	s.Values["slower"] = s.Values["during"] / s.Values["before"]
	return s, nil
}

// The objects that must survive: an owner and its dependent.
const (
	survivingOwner     = "survivor"
	survivingDependent = "survivor-0"
)

// dependents creates a namespace, with an owner in it that has many dependents and one
// that has one. It returns the path of the first.
func (r *Run) dependents(ctx context.Context, conn wire.Conn, like load.Object) (string, error) {
	if err := makeNamespaces(ctx, r.Server, 1, func(int) string { return like.Namespace }); err != nil {
		return "", err
	}
	var all []*load.Writer
	for _, owner := range []struct {
		name       string
		dependents int
	}{{survivingOwner, 1}, {"owner", r.Scale.Objects}} {
		w := &load.Writer{Object: like, Conn: conn}
		w.Object.Name = owner.name
		if err := w.Create(); err != nil {
			return "", err
		}
		uid, err := w.UID()
		if err != nil {
			return "", err
		}
		for i := range owner.dependents {
			dependent := &load.Writer{Key: i, Object: like}
			dependent.Object.Name = fmt.Sprintf("%s-%d", owner.name, i)
			dependent.Object.Owner = fmt.Sprintf(`[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]`, owner.name, uid)
			all = append(all, dependent)
		}
	}
	return like.Collection() + "/owner", load.Make(ctx, r.Target, fillers, all)
}

// collected waits until the collection has only those objects left that must survive.
func collected(ctx context.Context, conn wire.Conn, collection string) error {
	for end := time.Now().Add(collectWithin); ; {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		var raw bytes.Buffer
		if _, err := conn.Do(wire.Request{Path: load.Query(collection, "limit", "3")}, &raw); err != nil {
			return err
		}
		if err := json.Unmarshal(raw.Bytes(), &list); err != nil {
			return fmt.Errorf("list what is not collected yet: %w", err)
		}
		names := make([]string, len(list.Items))
		for i, item := range list.Items {
			names[i] = item.Metadata.Name
		}
		switch {
		case slices.Equal(names, []string{survivingOwner, survivingDependent}):
			return nil
		case len(names) < 3:
			return fmt.Errorf("%w: it holds %v, and the owner that was not deleted and its dependent should be left",
				errCollected, names)
		case time.Now().After(end):
			return fmt.Errorf("%w: after %v it still holds %v and more", errCollected, collectWithin, names)
		}
		if err := wait(ctx, collectPoll); err != nil {
			return err
		}
	}
}

// errCollected is a collection with other objects than it should have.
var errCollected = errors.New("garbage was not collected as it should be")

// meanwhile lets every writer write in intervals of collectPause until work has ended, and
// returns the latency of the writes.
func meanwhile(ctx context.Context, writers load.Writers, work func() error) (*load.Histogram, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(writers))
	var all sync.WaitGroup
	for i, w := range writers {
		w.Latency = &load.Histogram{}
		all.Go(func() {
			tick := time.NewTicker(collectPause)
			defer tick.Stop()
			for errs[i] == nil && ctx.Err() == nil {
				errs[i] = w.Update()
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	err := work()
	cancel()
	all.Wait()
	latency := &load.Histogram{}
	for _, w := range writers {
		latency.Merge(w.Latency)
	}
	return latency, errors.Join(err, errors.Join(errs...))
}

// wait waits for a time.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
