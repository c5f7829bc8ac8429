package cases

import "context"

// longListing is what an object costs in a long list that is compressed, and how that
// grows with the length. The longer list is of gapless alone: the reference server needs
// over 10 minutes and 3 GB to get so many objects, and 27 s for each list.
func longListing() []Case {
	rest := []Metric{{Name: "p50", Unit: "ms"}, {Name: "size", Unit: "MB"}}
	return []Case{
		{
			Name: "list-gzip-20000", Title: "LIST of 20 000, gzip, 1 client", Stage: Objects, Once: true, Run: runLongList,
			Metrics: append([]Metric{{Name: "cpu", Unit: "us/object", Goal: Ratio(1. / 25)}}, rest...),
		},
		{
			Name: "list-gzip-150000", Title: "LIST of 150 000, gzip, 1 client", Stage: Objects, Once: true, Ours: true,
			Run:     runLongerList,
			Metrics: append([]Metric{{Name: "cpu", Unit: "us/object"}, {Name: "growth", Unit: "x", Goal: AtMost(1.5)}}, rest...),
		},
	}
}

// runLongList measures compressed lists of the shorter length.
func runLongList(ctx context.Context, r *Run) (Sample, error) {
	return r.listGrown(ctx, r.Scale.Long)
}

// runLongerList measures compressed lists of the longer length, and how many times as
// much an object costs there as it did in the shorter one.
func runLongerList(ctx context.Context, r *Run) (Sample, error) {
	before, err := r.listGrown(ctx, r.Scale.Long)
	if err != nil {
		return before, err
	}
	s, err := r.listGrown(ctx, r.Scale.Longer)
	if err != nil {
		return s, err
	}
	s.Values["growth"] = s.Values["cpu"] / before.Values["cpu"]
	return s, nil
}

// listGrown adds objects until there are n, and measures compressed lists of all, per
// object.
func (r *Run) listGrown(ctx context.Context, n int) (Sample, error) {
	if err := r.fill(ctx, n); err != nil {
		return Sample{}, err
	}
	s, err := r.list(ctx, reading{clients: 1, gzip: true})
	if err != nil {
		return s, err
	}
	s.Values["cpu"] *= 1000 / float64(r.filled) // milliseconds per list
	return s, nil
}
