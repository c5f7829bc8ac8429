package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// asIs is a layout that changes nothing but the prefix.
type asIs struct{}

func (asIs) Key(key string) (string, error) { return "/registry/" + key, nil }

func (asIs) AppendDecoded(b []byte, _ string, value []byte) ([]byte, error) {
	return append(b, value...), nil
}

func (asIs) Encode(_ string, value []byte, _ func() ([]byte, error)) ([]byte, error) {
	return value, nil
}

func (asIs) StoreKey(key string) (string, bool) { return strings.CutPrefix(key, "/registry/") }

// withoutEtcd is a store whose log can be written, and which follows nothing.
func withoutEtcd(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{
		Cluster: Cluster{Servers: []string{"http://127.0.0.1:1"}}, Prefix: "/registry", Layout: asIs{}, Memory: true,
	})
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.log.Run(ctx) }() // ends with the test
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

// cutOff is what an attempt to record a difference has left in the log.
func cutOff(t *testing.T, s *Store, from int64, deleted []string, changed []event) {
	t.Helper()
	p := placing{store: s, ctx: t.Context()}
	p.put(revlog.Write{Key: markKey, Value: encodeMark(markBegin, from)}, 0)
	if err := p.flush(); err != nil {
		t.Fatalf("record the beginning: %v", err)
	}
	s.setTorn(&hole{from: from, begin: p.last})
	for _, key := range deleted {
		p.put(revlog.Write{Key: key, Delete: true}, from+1)
	}
	for _, e := range changed {
		p.put(e.write(), e.mod)
	}
	if err := p.flush(); err != nil {
		t.Fatalf("record a part of a difference: %v", err)
	}
}

// changesAfter are the changes of a feed with small batches.
func changesAfter(t *testing.T, s *Store, from store.From) []string {
	t.Helper()
	at, _ := s.seen()
	from.UpTo, from.Limit = at.rev, 1
	feed, err := s.Changes(t.Context(), from)
	if err != nil {
		t.Fatalf("read the changes: %v", err)
	}
	var got []string
	for {
		batch, err := feed.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatalf("read the changes: %v", err)
		}
		for _, c := range batch.Changes {
			got = append(got, fmt.Sprint(c.Key, " ", c.Revision))
		}
	}
}

// TestADifferenceThatIsRecordedTwiceLosesNothing: what the first attempt has recorded counts, and a
// batch does not end between the attempts.
func TestADifferenceThatIsRecordedTwiceLosesNothing(t *testing.T) {
	for what, c := range map[string]struct {
		changed []event // by the first attempt
		want    []string
	}{
		"in the deletions": {want: []string{"pods/a 11", "pods/b 11", "pods/c 11", "pods/d 15"}},
		"after the deletions": {
			changed: []event{{key: "pods/e", mod: 13, create: 13, value: []byte("1")}},
			want:    []string{"pods/a 11", "pods/e 13", "pods/b 13", "pods/c 13", "pods/d 15"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := withoutEtcd(t)
			first := difference{to: 10}
			for i, name := range []string{"a", "b", "c", "d"} {
				mod := int64(i + 1)
				first.changed = append(first.changed, event{key: "pods/" + name, mod: mod, create: mod, value: []byte("1")})
			}
			if err := s.replace(t.Context(), first); err != nil {
				t.Fatalf("record the first state: %v", err)
			}
			cutOff(t, s, 10, []string{"pods/a"}, c.changed)
			second := difference{from: 10, to: 20, deleted: []string{"pods/b", "pods/c"}}
			second.changed = []event{{key: "pods/d", mod: 15, create: 4, value: []byte("2")}}
			if err := s.replace(t.Context(), second); err != nil {
				t.Fatalf("record the difference again: %v", err)
			}
			if diff := cmp.Diff(c.want, changesAfter(t, s, store.From{After: 10})); diff != "" {
				t.Errorf("the changes after the first state (-want +got):\n%s", diff)
			}
		})
	}
}
