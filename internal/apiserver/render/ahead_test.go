package render_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// A row that cannot be made ends its list, wherever its block is made, and a panic is one of who asked: in another goroutine
// it would end the server. The rows before it were written, in order.
func TestRowsFailWhereTheirCellsDo(t *testing.T) {
	configmaps, _ := catalog.Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	var items []*wire.Object
	for i := range 900 {
		items = append(items, object(t, configmaps, i+1, fmt.Sprintf(`,"name":"n-%03d"`, i), ""))
	}
	for _, at := range []int{0, 450, 899} {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %t", at, panics), func(t *testing.T) {
				r := *configmaps
				r.Row = func(o *wire.Object) []any {
					if o == items[at] {
						if panics {
							panic("no such cell")
						}
						return []any{math.NaN()}
					}
					return []any{o.Key().Name}
				}
				body, why, err := tableOf(t, &r, items)
				if panics {
					if text := fmt.Sprint(why); !strings.Contains(text, "no such cell") {
						t.Errorf("panic: got %v", why)
					}
				} else if err == nil || why != nil {
					t.Errorf("got %v, %v, want an error", err, why)
				}
				last := -1
				for _, row := range strings.Split(body, `{"cells":["n-`)[1:] {
					last++
					if want := fmt.Sprintf("%03d", last); !strings.HasPrefix(row, want) {
						t.Fatalf("row %d begins with %.9s", last, row)
					}
				}
				if last >= at {
					t.Errorf("%d rows were written", last+1)
				}
			})
		}
	}
}

// tableOf writes a table, and returns what was written, and what panicked.
func tableOf(t *testing.T, r *kinds.Resource, items []*wire.Object) (body string, why any, err error) {
	t.Helper()
	w := httptest.NewRecorder()
	defer func() { body, why = w.Body.String(), recover() }()
	return "", nil, writeTable(t, w, render.NewLists(), r, items, asked{asTable, metav1.IncludeNone})
}
