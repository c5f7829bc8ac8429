package growth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Dimension is what grows.
type Dimension struct {
	Name  string
	Title string
	Sizes []int
	flags []string // of gapless serve
	// open prepares a server, and returns what grows it to a size and measures it there.
	open func(ctx context.Context, r *run) (func(ctx context.Context, n int) error, error)
}

// Dimensions are all of them.
func Dimensions() []Dimension {
	const unlimited = "1000000"
	return []Dimension{
		{
			Name: "writers", Title: "Writers, each of which creates one object after the other",
			Sizes: []int{1, 4, 16, 64, 256, 1024}, open: writers,
		},
		{
			Name: "namespaces", Title: "Namespaces, with one object each", Sizes: []int{10, 40, 160, 640, 2500, 10_000},
			open: namespaces,
		},
		{
			Name: "definitions", Title: "Definitions of custom resources, 20 in a group", Sizes: []int{10, 30, 125, 500, 2000},
			open: definitions,
		},
		{
			Name: "watchers", Title: "Watchers, each of which selects one object, by namespace, by name or by label",
			Sizes: []int{50, 200, 800, 3200, 12_500, 50_000}, flags: []string{"--max-watches", unlimited}, open: watchers,
		},
		{
			Name: "history", Title: "Changes that are kept, of 1 000 objects",
			Sizes: []int{1000, 4000, 16_000, 64_000, 250_000, 1_000_000},
			flags: []string{"--history", "0", "--history-bytes", "0", "--max-resets-per-minute", unlimited}, open: history,
		},
		{
			Name: "objects", Title: "Objects of one resource in one namespace",
			Sizes: []int{1000, 4000, 16_000, 64_000, 250_000, 1_000_000}, open: objects,
		},
	}
}

// small is an object with 300 bytes of data.
func small(namespace, name string) load.Object {
	return load.Object{Namespace: namespace, Name: name, Content: load.Small}
}

// write creates or updates the i-th object of a kind, in whichever version it is.
func write(conn wire.Conn, o load.Object, i int, method func(*load.Writer) error) error {
	return method(&load.Writer{Object: o, Key: i % 100_000, Seq: int64(i), Conn: conn})
}

func filled(i int) string { return fmt.Sprintf("filled-%07d", i) }

const configMaps = "/api/v1/namespaces/default/configmaps"

func objects(ctx context.Context, r *run) (func(ctx context.Context, n int) error, error) {
	if err := makeNamespace(r.conns[0], "hundred"); err != nil {
		return nil, err
	}
	for i := range 100 {
		if err := write(r.conns[0], small("hundred", filled(i)), i, (*load.Writer).Create); err != nil {
			return nil, err
		}
	}
	base, err := r.server.Settled(ctx, r.Quiet)
	if err != nil {
		return nil, err
	}
	have := 0
	return func(ctx context.Context, n int) error {
		err := r.fill(ctx, have, n, "create", func(conn wire.Conn, i int) error {
			return write(conn, small("default", filled(i)), i, (*load.Writer).Create)
		})
		have = n
		if err == nil {
			err = r.memory(ctx, "memory per object", base, n)
		}
		if err != nil {
			return err
		}
		if err := r.costs(ctx,
			operation{name: "get", do: func(conn wire.Conn, i int) error {
				return get(conn, configMaps+"/"+filled(scattered(i, n)))
			}},
			operation{name: "update", clients: clients, do: func(conn wire.Conn, i int) error {
				return write(conn, small("default", filled(scattered(i, n))), i, (*load.Writer).Update)
			}},
			operation{
				name: "list limit=500", do: func(conn wire.Conn, _ int) error { return get(conn, configMaps+"?limit=500") },
			},
			operation{name: "list of a namespace of 100 objects", do: func(conn wire.Conn, _ int) error {
				return get(conn, "/api/v1/namespaces/hundred/configmaps")
			}},
		); err != nil {
			return err
		}
		if err := r.event(ctx, "update, with its event to one watcher", small("default", "hot"),
			load.Query("/api/v1/configmaps", "fieldSelector", "metadata.name=hot")); err != nil {
			return err
		}
		return r.restart(ctx)
	}, nil
}

func makeNamespace(conn wire.Conn, name string) error {
	return do(conn, wire.Request{
		Method: http.MethodPost, Path: "/api/v1/namespaces",
		Body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name),
	})
}

// perConn is how many watches share a connection.
const perConn = 250

func watchers(ctx context.Context, r *run) (func(ctx context.Context, n int) error, error) {
	if err := makeNamespace(r.conns[0], "selected"); err != nil {
		return nil, err
	}
	base, err := r.server.Settled(ctx, r.Quiet)
	if err != nil {
		return nil, err
	}
	have := 0
	selection := func(i int) string { // of an object that does not exist
		return []string{
			fmt.Sprintf("/api/v1/namespaces/other-%d/configmaps", i),
			load.Query("/api/v1/configmaps", "fieldSelector", fmt.Sprintf("metadata.name=other-%d", i)),
			load.Query("/api/v1/configmaps", "labelSelector", fmt.Sprintf("shard=other-%d", i)),
		}[i%3]
	}
	more := func(ctx context.Context, from, to int) (*load.Crowd, error) {
		version, err := load.ReadVersion(r.conns[0], configMaps, "")
		if err != nil {
			return nil, err
		}
		all := make([]load.Watch, to-from)
		for i := range all {
			all[i] = load.Watch{Path: selection(from + i), Follower: load.NewFollower(0, 1, -1)}
		}
		return r.watch(ctx, (len(all)+perConn-1)/perConn, fmt.Sprint(version), all...)
	}
	return func(ctx context.Context, n int) error {
		crowd, err := more(ctx, have, n)
		if err != nil {
			return err
		}
		r.closers, have = append(r.closers, crowd.Close), n
		if err := r.memory(ctx, "memory per watch", base, n); err != nil {
			return err
		}
		labelled := small("default", "labelled")
		labelled.Shard = "selected"
		for _, e := range []struct {
			name, path string
			object     load.Object
		}{
			{"update that no watcher selects", "", small("default", "hot")},
			{"update, selected by namespace", "/api/v1/namespaces/selected/configmaps", small("selected", "hot")},
			{
				"update, selected by name", load.Query("/api/v1/configmaps", "fieldSelector", "metadata.name=named"),
				small("default", "named"),
			},
			{"update, selected by label", load.Query("/api/v1/configmaps", "labelSelector", "shard=selected"), labelled},
		} {
			if err := r.event(ctx, e.name, e.object, e.path); err != nil {
				return err
			}
		}
		return r.oneMoreWatch(ctx, func() (*load.Crowd, error) { return more(ctx, n, n+perConn) })
	}, nil
}

// oneMoreWatch measures what a watch costs that is opened beside the others.
func (r *run) oneMoreWatch(ctx context.Context, open func() (*load.Crowd, error)) error {
	each := make([]time.Duration, r.Rounds)
	for i := range each {
		var crowd *load.Crowd
		used, err := r.used(func() (err error) {
			crowd, err = open()
			return err
		})
		if err != nil {
			return err
		}
		if each[i] = used; crowd.Close() != nil {
			return errors.New("a watch ended that was opened beside the others")
		}
	}
	slices.Sort(each)
	r.put("open one more watch", "us", float64(each[len(each)/2].Nanoseconds())/1000/perConn)
	return context.Cause(ctx)
}

func namespaces(_ context.Context, r *run) (func(ctx context.Context, n int) error, error) {
	name := func(i int) string { return fmt.Sprintf("grown-%05d", i) }
	have := 0
	return func(ctx context.Context, n int) error {
		if err := r.fill(ctx, have, n, "create a namespace and an object in it", func(conn wire.Conn, i int) error {
			if err := makeNamespace(conn, name(i)); err != nil {
				return err
			}
			return write(conn, small(name(i), filled(i)), i, (*load.Writer).Create)
		}); err != nil {
			return err
		}
		have = n
		first := "made-" + fmt.Sprint(n)
		if err := r.costs(ctx,
			operation{name: "create in one of them", clients: clients, do: func(conn wire.Conn, i int) error {
				return write(conn, small(name(0), fmt.Sprintf("%s-%06d", first, i)), i, (*load.Writer).Create)
			}},
			operation{name: "list of one of them", do: func(conn wire.Conn, i int) error {
				return get(conn, "/api/v1/namespaces/"+name(1+scattered(i, n-1))+"/configmaps")
			}},
			operation{name: "list of namespaces, limit=100", do: func(conn wire.Conn, _ int) error {
				return get(conn, "/api/v1/namespaces?limit=100")
			}},
		); err != nil {
			return err
		}
		if err := r.event(ctx, "update, with its event to a watch of the namespace", small(name(1), "hot"),
			"/api/v1/namespaces/"+name(1)+"/configmaps"); err != nil {
			return err
		}
		if err := r.deletions(ctx, n); err != nil {
			return err
		}
		return r.restart(ctx)
	}, nil
}

// deletions measures the deletion of namespaces with ten objects.
func (r *run) deletions(ctx context.Context, n int) error {
	const together, objects = 16, 10
	each := make([]time.Duration, r.Rounds)
	for round := range each {
		doomed := func(i int) string { return fmt.Sprintf("doomed-%d-%d-%d", n, round, i) }
		for i := range together {
			if err := makeNamespace(r.conns[0], doomed(i)); err != nil {
				return err
			}
			for o := range objects {
				if err := write(r.conns[0], small(doomed(i), filled(o)), o, (*load.Writer).Create); err != nil {
					return err
				}
			}
		}
		used, err := r.used(func() error {
			for i := range together {
				if err := do(r.conns[0], wire.Request{
					Method: http.MethodDelete, Path: "/api/v1/namespaces/" + doomed(i),
				}); err != nil {
					return err
				}
			}
			for i := range together {
				if err := r.gone(ctx, "/api/v1/namespaces/"+doomed(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		each[round] = used
	}
	slices.Sort(each)
	r.put("delete a namespace of 10 objects", "us", float64(each[len(each)/2].Nanoseconds())/1000/together)
	return nil
}

// gone waits until there is nothing at a path.
func (r *run) gone(ctx context.Context, path string) error {
	for {
		err := get(r.conns[0], path)
		if refused, is := errors.AsType[*wire.StatusError](err); is && refused.Status == http.StatusNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// defined returns the i-th definition of custom resources, and the path of its objects.
func defined(i int) (body, path string) {
	group, of := fmt.Sprintf("g%04d.growth.example", i/20), fmt.Sprint(i)
	return strings.NewReplacer(`"benches.bench.gapless.io"`, `"benches`+of+`.`+group+`"`, `"`+load.Group+`"`, `"`+group+`"`,
		`"`+load.Plural+`"`, `"`+load.Plural+of+`"`, `"bench"`, `"bench`+of+`"`, `"Bench"`, `"Bench`+of+`"`, `"BenchList"`,
		`"Bench`+of+`List"`).Replace(load.Definition), "/apis/" + group + "/v1/" + load.Plural + of
}

// define creates a definition and waits until its objects can be listed.
func (r *run) define(ctx context.Context, conn wire.Conn, i int) error {
	body, path := defined(i)
	const all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if err := do(conn, wire.Request{Method: http.MethodPost, Path: all, Body: []byte(body)}); err != nil {
		return err
	}
	for {
		err := get(conn, path)
		refused, is := errors.AsType[*wire.StatusError](err)
		if !is || refused.Status != http.StatusNotFound {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func definitions(ctx context.Context, r *run) (func(ctx context.Context, n int) error, error) {
	base, err := r.server.Settled(ctx, r.Quiet)
	if err != nil {
		return nil, err
	}
	have, spare := 0, 1_000_000 // spare numbers those that are few beside the others
	return func(ctx context.Context, n int) error {
		define := func(conn wire.Conn, i int) error { return r.define(ctx, conn, i) }
		err := r.fill(ctx, have, n, "create a definition", define)
		if have = n; err == nil {
			err = r.memory(ctx, "memory per definition", base, n)
		}
		if err != nil {
			return err
		}
		read := func(path, accept string) func(conn wire.Conn, i int) error {
			return func(conn wire.Conn, _ int) error { return do(conn, wire.Request{Path: path, Accept: accept}) }
		}
		discovery := read("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		openapi := read("/openapi/v3", "")
		after := func(name string, read func(conn wire.Conn, i int) error) operation {
			return operation{name: name, clients: 1, most: 2, do: func(conn wire.Conn, i int) error {
				spare++
				return errors.Join(define(conn, spare), read(conn, i))
			}}
		}
		if err := r.costs(ctx,
			operation{name: "create a custom resource", clients: clients, do: func(conn wire.Conn, i int) error {
				_, path := defined(0)
				path = strings.Replace(path, "/v1/", "/v1/namespaces/default/", 1)
				return do(conn, wire.Request{Method: http.MethodPost, Path: path, Body: fmt.Appendf(nil,
					`{"apiVersion":"g0000.growth.example/v1","kind":"Bench0","metadata":{"name":"made-%d-%d"},`+
						`"spec":{"shard":"a"}}`, n, i)})
			}},
			operation{name: "read discovery", do: discovery},
			operation{name: "read the root of OpenAPI v3", do: openapi},
			after("create a definition, and read discovery", discovery),
			after("create a definition, and read the root of OpenAPI v3", openapi),
		); err != nil {
			return err
		}
		return r.restart(ctx)
	}, nil
}

func writers(_ context.Context, r *run) (func(ctx context.Context, n int) error, error) {
	return func(ctx context.Context, n int) error {
		conns, hangUp, err := load.Connect(ctx, r.server.Target, n)
		if err != nil {
			return err
		}
		defer hangUp()
		count := max(8*n, int(20*r.Window/time.Millisecond)) // about 0.1 ms each
		create := func(prefix string, count int) error {
			return load.InParallel(ctx, n, count, func(_ context.Context, worker, i int) error {
				return write(conns[worker], small("default", fmt.Sprintf("%s-%d-%d", prefix, n, i)), i, (*load.Writer).Create)
			})
		}
		if err := create("warm", 4*n); err != nil {
			return err
		}
		each, rates := make([]float64, r.Rounds), make([]float64, r.Rounds)
		for i := range each {
			began := time.Now()
			used, err := r.used(func() error { return create(fmt.Sprint("round-", i), count) })
			if err != nil {
				return err
			}
			each[i] = float64(used.Nanoseconds()) / 1000 / float64(count)
			rates[i] = float64(count) / time.Since(began).Seconds()
		}
		slices.Sort(each)
		slices.Sort(rates)
		r.put("create", "us", each[len(each)/2])
		r.put("creates, of all writers", "/s", rates[len(rates)/2])
		return nil
	}, nil
}

func history(_ context.Context, r *run) (func(ctx context.Context, n int) error, error) {
	const objects = 1000
	for i := range objects {
		if err := write(r.conns[0], small("default", filled(i)), i, (*load.Writer).Create); err != nil {
			return nil, err
		}
	}
	have := 0
	return func(ctx context.Context, n int) error {
		var version uint64 // of the state when half of the changes of this step were made
		var at string
		change := func(conn wire.Conn, i int) error {
			w := load.Writer{Object: small("default", filled(i%objects)), Key: i % objects, Seq: int64(i / objects), Conn: conn}
			return w.Update()
		}
		if err := r.fill(ctx, have, have+(n-have)/2, "", change); err != nil {
			return err
		}
		version, err := load.ReadVersion(r.conns[0], configMaps, "")
		if err != nil {
			return err
		}
		at = time.Now().UTC().Format(time.RFC3339Nano)
		if err := r.fill(ctx, have+(n-have)/2, n, "update", change); err != nil {
			return err
		}
		have = n
		then := load.Query(configMaps, "limit", "500", "resourceVersion", fmt.Sprint(version), "resourceVersionMatch", "Exact")
		if err := r.costs(ctx,
			operation{name: "get as it was, by time", do: func(conn wire.Conn, i int) error {
				return get(conn, load.Query(configMaps+"/"+filled(scattered(i, objects)), "at", at))
			}},
			operation{name: "list limit=500 as it was", do: func(conn wire.Conn, _ int) error { return get(conn, then) }},
		); err != nil {
			return err
		}
		if err := r.resume(ctx); err != nil {
			return err
		}
		return r.restart(ctx)
	}, nil
}

// resume measures a watch that begins 100 changes back, until it has them.
func (r *run) resume(ctx context.Context) error {
	newest, err := load.ReadVersion(r.conns[0], configMaps, "")
	if err != nil {
		return err
	}
	conn, err := r.server.Target.Dial(ctx, wire.HTTP2)
	if err != nil {
		return err
	}
	defer conn.Close()
	return r.cost(ctx, operation{name: "resume from 100 changes back", do: func(wire.Conn, int) error {
		f := load.NewFollower(0, 1000, -1)
		f.Until = newest
		f.From(newest - 100)
		_, err := conn.Do(wire.Request{Path: load.Query("/api/v1/configmaps", "watch", "1", "timeoutSeconds", "60",
			"resourceVersion", fmt.Sprint(newest-100))}, f)
		if err == nil && f.Events() != 100 {
			err = fmt.Errorf("%d events instead of 100", f.Events())
		}
		return err
	}})
}
