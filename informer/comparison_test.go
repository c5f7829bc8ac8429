package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// TestAFailedComparisonIsRetried: after an outage the server lacks an object, and the first
// list that would show it has endless pages or an undecodable item.
func TestAFailedComparisonIsRetried(t *testing.T) {
	t.Run("pages without objects", func(t *testing.T) { comparedAgain(t, "") })
	t.Run("no object", func(t *testing.T) { comparedAgain(t, "null") })
}

func comparedAgain(t *testing.T, item string) {
	synctest.Test(t, func(t *testing.T) {
		read := false
		var watches, pages atomic.Int64
		s := listwatchtest.Script{
			OnList: func(_ context.Context, r request, each func([]byte) error) (metav1.ListMeta, error) {
				meta := metav1.ListMeta{ResourceVersion: "9"}
				if read && (pages.Load() == 0 || r.Continue != "") {
					pages.Add(1)
					if item != "" {
						return meta, errors.Join(each([]byte(object("kept", 1, 5, 1))), each([]byte(item)))
					}
					meta.Continue = fmt.Sprint(pages.Load())
					return meta, nil
				}
				if err := each([]byte(object("kept", 1, 5, 1))); err != nil || read {
					return meta, err
				}
				read = true
				return meta, each([]byte(object("lost", 2, 6, 1)))
			},
			OnWatch: func(ctx context.Context, _ request, _ func(...string)) error {
				if watches.Add(1) == 2 {
					return listwatchtest.ErrRefused
				}
				sleep(ctx, time.Minute)
				return nil
			},
		}
		i := scripted(s, informer.NoStreamingLists())
		run(t, i, func() {
			after(10 * time.Minute)
			if pages.Load() == 0 || i.Len() != 1 || i.Status().Incidents[informer.WentBack] == 0 {
				t.Errorf("after %d watches and %d pages: %d objects, %+v", watches.Load(), pages.Load(), i.Len(), i.Status())
			}
		})
	})
}

// TestALostUndecodableStateLeadsToAList: the newest state of an object was undecodable, and
// after an outage the server has another state, with an older version or the same one.
func TestALostUndecodableStateLeadsToAList(t *testing.T) {
	t.Run("older", func(t *testing.T) { undecodableLost(t, 6) })
	t.Run("the same version", func(t *testing.T) { undecodableLost(t, 7) })
}

func undecodableLost(t *testing.T, now int) {
	synctest.Test(t, func(t *testing.T) {
		read := false
		var watches atomic.Int64
		s := listwatchtest.Script{
			OnList: func(_ context.Context, _ request, each func([]byte) error) (metav1.ListMeta, error) {
				if read {
					return metav1.ListMeta{ResourceVersion: "7"}, each([]byte(object("a", 1, now, 2)))
				}
				read = true
				return metav1.ListMeta{ResourceVersion: "5"}, each([]byte(object("a", 1, 5, 1)))
			},
			OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
				switch watches.Add(1) {
				case 1:
					say(listwatchtest.Frame("MODIFIED", strings.Replace(object("a", 1, 7, 3), `"value":3`, `"value":"three"`, 1)))
				case 2:
					return listwatchtest.ErrRefused
				}
				sleep(ctx, time.Minute)
				return nil
			},
		}
		i := scripted(s, informer.NoStreamingLists())
		run(t, i, func() {
			after(10 * time.Minute)
			got, _ := i.Get(informer.Key{Namespace: "default", Name: "a"})
			if got == nil || got.Value != 2 || i.Status().Incidents[informer.WentBack] == 0 {
				t.Errorf("the cache has %+v; %+v", got, i.Status())
			}
		})
	})
}
