package growth_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/bench/internal/growth"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheFitFindsTheExponent(t *testing.T) {
	sizes := []int{1000, 4000, 16_000, 64_000, 250_000, 1_000_000}
	for name, c := range map[string]struct {
		of        func(n float64) float64
		want, off float64
	}{
		"constant":                   {func(float64) float64 { return 120 }, 0, 0.03},
		"logarithm":                  {math.Log2, 0.08, 0.04},
		"in proportion":              {func(n float64) float64 { return 0.02 * n }, 1, 0.03},
		"square":                     {func(n float64) float64 { return 1e-3 * n * n }, 2, 0.03},
		"fixed cost below a linear":  {func(n float64) float64 { return 50 + n/100 }, 0.93, 0.08},
		"linear below a fixed cost":  {func(n float64) float64 { return 1e6 + n/100 }, 0, 0.04},
		"smaller sizes are left out": {func(n float64) float64 { return max(n, 16_000) }, 1, 0.03},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // noise that can be repeated
			values := make([]float64, len(sizes))
			for i, n := range sizes {
				values[i] = c.of(float64(n)) * (0.95 + 0.1*random.Float64())
			}
			if got := growth.Slope(sizes, values); math.Abs(got-c.want) > c.off {
				t.Errorf("%v have the slope %.3f, want %.3f within %.2f", values, got, c.want, c.off)
			}
		})
	}
	if got := growth.Slope([]int{10, 100}, []float64{0, 7}); !math.IsNaN(got) {
		t.Errorf("one value has the slope %v", got)
	}
}

func TestThePageSaysFirstWhatIsWorst(t *testing.T) {
	r := &growth.Record{}
	sizes := []int{10, 100, 1000}
	r.Add(growth.Measured{Name: "objects", Sizes: sizes, Curves: []growth.Curve{{"old", "us", []float64{1, 1, 1}}}})
	r.Add(growth.Measured{Name: "objects", Sizes: sizes, Curves: []growth.Curve{
		{"flat", "us", []float64{100, 101, 100}}, {"steep", "ms", []float64{1, 10, 100}}, {"some", "us", []float64{0, 0, 0.5}},
	}})
	page := r.Page()
	at := -1
	for _, want := range []string{
		"## Worse than O(log n)", "- **objects: steep**, n to the power of 1.00.", "## Objects", "1000000 were not reached.",
		"| objects | 10 | 100 | 1 000 | slope |", "| steep, ms | 1.00 | 10.0 | 100 | 1.00 |",
		"| flat, us | 100 | 101 | 100 | 0.00 |",
		"| some, us | – | – | 0.5 | NaN |",
	} {
		next := strings.Index(page, want)
		if next <= at {
			t.Errorf("%q is missing, or not after what must be before it, in\n%s", want, page)
		}
		at = max(at, next)
	}
	if strings.Contains(page, "| old") || strings.Contains(page, "flat**") {
		t.Errorf("the page has what was replaced, or calls a constant bad:\n%s", page)
	}
	path := filepath.Join(t.TempDir(), "record.json")
	if err := r.Write(path); err != nil {
		t.Fatalf("write the record: %v", err)
	}
	if read, err := growth.ReadRecord(path); err != nil || read.Page() != page {
		t.Errorf("the record has changed on its way: %v", err)
	}
	r.Dimensions[0].Curves[0].Values = nil
	if err := r.Write(path); err != nil {
		t.Fatalf("write the record: %v", err)
	}
	if _, err := growth.ReadRecord(path); err == nil || !strings.Contains(err.Error(), "flat has 0 values for 3 sizes") {
		t.Errorf("a record that lacks values: %v", err)
	}
}

// TestEveryDimensionGrows plays all of them at tiny sizes: that it works, not what it costs.
func TestEveryDimensionGrows(t *testing.T) {
	dir := t.TempDir()
	program, err := peer.Build(t.Context(), peer.Gapless, "../../..", dir)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	sizes := []int{2, 5}
	// The kernel adds to the clock of another process when a thread stops, or at a tick, every 4 ms: what took less than the
	// window may have taken nothing.
	p := &growth.Player{
		Program: program, Dir: dir, Sizes: sizes, Window: 20 * time.Millisecond, Rounds: 1, Quiet: time.Millisecond,
		Log: t.Output(),
	}
	r := &growth.Record{}
	for _, d := range growth.Dimensions() {
		m, err := p.Play(t.Context(), d)
		if err != nil {
			t.Errorf("play: %v", err)
		}
		if !slices.Equal(m.Sizes, sizes) || len(m.Curves) < 2 {
			t.Errorf("%s: %+v", d.Name, m)
		}
		for _, c := range m.Curves {
			if len(c.Values) != len(sizes) || !strings.HasPrefix(c.Operation, "memory") && slices.Min(c.Values) <= 0 {
				t.Errorf("%s: %s is %v", d.Name, c.Operation, c.Values)
			}
		}
		r.Add(m)
	}
	if page := r.Page(); strings.Contains(page, "Not measured") {
		t.Errorf("a dimension is not on the page:\n%s", page)
	}
}
