package index_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

func TestTheFloorOfARangeIsTheHighestOfItsResources(t *testing.T) {
	names := []string{"a", "a-b", "a.b", "ab", "b", "pods", "pods.x"}
	bounds := []string{"", "\xff", "z"}
	for _, name := range names {
		bounds = append(bounds, name, name+"-", name+"/", name+"/k", name+"0", name+"00", name[:len(name)-1])
	}
	for _, start := range bounds {
		for _, end := range bounds {
			s := index.Span{Start: start, End: end}
			if s.Single() != "" {
				continue
			}
			x := index.Index{Resources: map[string]*index.Resource{}}
			var want int64
			for i, name := range names {
				floor := int64(i + 1)
				x.Resources[name] = &index.Resource{Floor: format.Mark{Revision: floor}}
				if start < name+"0" && name+"/" < end {
					want = floor
				}
			}
			if got, _ := x.Floor(s); got.Revision != want {
				t.Errorf("the floor from %q to %q is %d, want %d", start, end, got.Revision, want)
			}
			x.Resources["pods"].Floor.Revision, x.Apart = 100, "pods"
			if got, _ := x.Floor(s); got.Revision == 100 {
				t.Errorf("the floor from %q to %q is that of a resource apart", start, end)
			}
		}
	}
}
