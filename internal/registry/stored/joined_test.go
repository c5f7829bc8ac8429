package stored

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/storetest"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// joining is a store that reads the changes of one revision in several steps, as one over a log that
// bounds them by bytes: each asks about four changes, of which it reads two.
type joining struct{ *storetest.List }

func (s joining) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	plain := f
	plain.Known, plain.Want = nil, nil
	feed, err := s.List.Changes(ctx, plain)
	return joiningFeed{feed, f}, err
}

type joiningFeed struct {
	store.Changes

	from store.From
}

func (k joiningFeed) Next(ctx context.Context) (store.Batch, error) {
	const asked, read = 4, 2
	b, err := k.Changes.Next(ctx)
	for pos := 0; pos < len(b.Changes); pos += read {
		var known [asked]bool
		for i, c := range b.Changes[pos:min(pos+asked, len(b.Changes))] {
			_, known[i] = k.from.Known(c.Key, c.Revision)
		}
		for i := pos; i < min(pos+read, len(b.Changes)); i++ {
			c := &b.Changes[i]
			if known[i-pos] {
				*c = store.Change{Revision: c.Revision, Key: c.Key}
				continue
			}
			bare := *c
			bare.Value = nil
			if value, _ := k.from.Want(bare); !value {
				c.Value = nil
			}
		}
	}
	return b, err
}

// TestAReaderGetsEachChangeOfARevisionThatIsReadInSteps: also the second one, when all or some of them are known.
func TestAReaderGetsEachChangeOfARevisionThatIsReadInSteps(t *testing.T) {
	const objects = 9
	list := storetest.NewList()
	r := NewSource(joining{list}).Resource(kinds.GroupResource{Resource: "pods"}, nil)
	var made, gone []store.Txn
	var want []string
	for i := range objects {
		name := fmt.Sprintf("p%d", i)
		made, gone = append(made, put(name, "1")), append(gone, deletion(name))
		want = append(want, fmt.Sprintf("2 deletes %s, shows 1 after 1", name))
	}
	list.Together(made...)
	list.Together(gone...)
	for round, known := range []int{0, objects, objects / 2, 1} {
		if round > 0 { // a part of what was decoded is forgotten
			d := &r.source.decoded
			d.mu.Lock()
			d.runs, d.ran, d.running = map[place]*run{}, nil, 0
			for w := range d.entries {
				if w.key.Name >= fmt.Sprintf("p%d", known) {
					delete(d.entries, w)
				}
			}
			d.mu.Unlock()
		}
		entries, through, err := r.Entries(t.Context(), watchcache.Range{
			After: 1, Since: 1, UpTo: kube.ResourceVersion(list.Together(put("other", "1"))) - 1,
			Selection: &watchcache.Selection{},
		})
		if err != nil || through < 2 {
			t.Fatalf("read with %d known: through %d, %v", known, through, err)
		}
		var got []string
		for _, e := range entries {
			if e.RV == 2 {
				got = append(got, brief(e))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %d known (-want +got):\n%s", known, diff)
		}
	}
}
