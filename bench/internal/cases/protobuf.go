package cases

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/bench/internal/load"
)

// dearer is how much more CPU an answer in protobuf may cost than the same in JSON.
const dearer = 1.1

// encoding is what protobuf costs, compared with our JSON of the same ConfigMaps: the
// reference server has no built-in kinds.
func encoding() []Case {
	metrics := func(unit string, more ...Metric) []Metric {
		return append([]Metric{{Name: "ratio", Goal: AtMost(dearer)}, {Name: "cpu", Unit: unit}, {Name: "json", Unit: unit}},
			more...)
	}
	return []Case{
		{
			Name: "list-protobuf", Title: "LIST of 10 000 ConfigMaps in protobuf, against JSON", Stage: Definition, Ours: true,
			Run: runEncodedList(false), Metrics: metrics("ms", Metric{Name: "size", Unit: "MB"}),
		},
		{
			Name: "list-protobuf-gzip", Title: "LIST of 10 000 ConfigMaps in protobuf, against JSON, gzip", Stage: Definition,
			Ours: true,
			Run:  runEncodedList(true), Metrics: metrics("ms", Metric{Name: "size", Unit: "MB"}),
		},
		{
			Name: "watch-protobuf", Title: "1 000 watchers of ConfigMaps in protobuf, against JSON, flat out, HTTP/1.1",
			Stage: Definition, Ours: true,
			Run: runEncodedFlood, Metrics: metrics("us/event", Metric{Name: "p99", Unit: "ms"}, Metric{Name: "cut"}),
		},
	}
}

// runEncodedList lists the same ConfigMaps in JSON and then in protobuf.
func runEncodedList(gzip bool) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		s := Sample{Values: map[string]float64{}}
		like := load.Object{Namespace: "listed", Content: load.ConfigMap}
		if err := r.fillMaps(ctx, like); err != nil {
			return s, err
		}
		for _, accept := range []string{"", load.Protobuf} {
			conns, hangUp, err := load.Connect(ctx, r.Target, 1)
			if err != nil {
				return s, err
			}
			reader := &load.Reader{
				Conn: conns[0], List: load.List{Path: like.Collection(), Version: "0", Gzip: gzip, Accept: accept},
			}
			size, err := reader.Read() // which also makes the blocks
			if err != nil {
				hangUp()
				return s, err
			}
			var ops int64
			u, err := r.measure(ctx, func() (err error) {
				ops, err = during(ctx, r.Scale.For, 1, func(int, int) error {
					n, err := reader.Read()
					if err == nil && n != size {
						err = fmt.Errorf("%w: %d bytes instead of %d", errShort, n, size)
					}
					return err
				})
				return err
			})
			hangUp()
			if err != nil {
				return s, err
			}
			s.Values["json"] = s.Values["cpu"]   // of the turn before
			u.into(s, float64(max(ops, 1))*1000) // milliseconds
			s.Values["size"] = float64(size) / megabyte
		}
		s.Values["ratio"] = s.Values["cpu"] / s.Values["json"]
		return s, nil
	}
}

// fillMaps creates the namespace and the ConfigMaps that are listed, once.
func (r *Run) fillMaps(ctx context.Context, like load.Object) error {
	if r.maps {
		return nil
	}
	r.maps = true
	if err := makeNamespaces(ctx, r.Server, 1, func(int) string { return like.Namespace }); err != nil {
		return err
	}
	all := make([]*load.Writer, r.Scale.Objects)
	for i := range all {
		all[i] = &load.Writer{Key: i, Object: like}
		all[i].Object.Name = fmt.Sprintf("listed-%06d", i)
	}
	return load.Make(ctx, r.Target, 16, all)
}

// runEncodedFlood lets watchers follow in JSON, and then in protobuf.
func runEncodedFlood(ctx context.Context, r *Run) (Sample, error) {
	name := r.Case
	defer func() { r.Case = name }()
	r.Case = name + "-json"
	text, err := r.deliver(ctx, crowd{content: load.ConfigMap}, floodWriters, func(w load.Writers) error {
		return w.Flood(ctx, r.Scale.For)
	})
	if err != nil {
		return text, err
	}
	r.Case = name
	s, err := r.deliver(ctx, crowd{content: load.ConfigMap, binary: true}, floodWriters, func(w load.Writers) error {
		return w.Flood(ctx, r.Scale.For)
	})
	s.Values["json"] = text.Values["cpu"]
	s.Values["ratio"] = s.Values["cpu"] / text.Values["cpu"]
	return s, err
}
