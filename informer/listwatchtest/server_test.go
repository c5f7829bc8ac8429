package listwatchtest_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

// pages lists all pages and returns the number of items of each.
func pages(t *testing.T, v *listwatchtest.View, limit int64) (items []int, last metav1.ListMeta) {
	t.Helper()
	o := metav1.ListOptions{Limit: limit}
	for {
		n := 0
		meta, err := v.List(t.Context(), o, func([]byte) error { n++; return nil })
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if items, o.Continue = append(items, n), meta.Continue; meta.Continue == "" {
			return items, meta
		}
	}
}

func TestListReturnsPages(t *testing.T) {
	s := listwatchtest.New()
	for n := range 5 {
		s.Put("o"+strconv.Itoa(n), n)
	}
	items, meta := pages(t, &listwatchtest.View{Server: s}, 2)
	if diff := cmp.Diff([]int{2, 2, 1}, items); diff != "" || meta.ResourceVersion != "1005" {
		t.Errorf("at %s: %s", meta.ResourceVersion, diff)
	}
}

func TestAContinuedListKeepsItsResourceVersion(t *testing.T) {
	s := listwatchtest.New()
	s.Put("a", 1)
	s.Put("b", 1)
	v := &listwatchtest.View{Server: s}
	each := func([]byte) error { return nil }
	first, err := v.List(t.Context(), metav1.ListOptions{Limit: 1}, each)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	s.Put("c", 1)
	second, err := v.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: first.Continue}, each)
	if err != nil || second.ResourceVersion != first.ResourceVersion || second.Continue != "" {
		t.Errorf("page %+v after %+v, error %v", second, first, err)
	}
	s.Compact(0)
	if _, err = v.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: first.Continue},
		each); kube.Classify(err) != kube.OutcomeExpired {
		t.Errorf("a token of a compacted version: %v", err)
	}
}

func TestWatchSendsTheEventsAfterItsResourceVersion(t *testing.T) {
	for name, watch := range map[string]func(s *listwatchtest.Server, ctx context.Context,
		rv string) func() (kube.EventType, error){
		"view": func(s *listwatchtest.Server, ctx context.Context, rv string) func() (kube.EventType, error) {
			w, err := (&listwatchtest.View{Server: s}).Watch(ctx, metav1.ListOptions{ResourceVersion: rv})
			if err != nil {
				t.Fatalf("watch: %v", err)
			}
			return func() (kube.EventType, error) { f, err := w.Next(); return f.Type, err }
		},
		"wire": func(s *listwatchtest.Server, ctx context.Context, rv string) func() (kube.EventType, error) {
			w, err := listwatchtest.Over(s).Watch(ctx, metav1.ListOptions{ResourceVersion: rv})
			if err != nil {
				t.Fatalf("watch: %v", err)
			}
			return func() (kube.EventType, error) { f, err := w.Next(); return f.Type, err }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := listwatchtest.New()
				s.Put("a", 1)
				rv := s.RV()
				s.Put("a", 2)
				s.Put("b", 1)
				s.Delete("a")
				ctx, cancel := context.WithCancel(t.Context())
				next := watch(s, ctx, strconv.Itoa(rv))
				for _, want := range []kube.EventType{kube.Modified, kube.Added, kube.Deleted} {
					if got, err := next(); got != want || err != nil {
						t.Errorf("event %v, error %v, want %v", got, err, want)
					}
				}
				cancel()
				if _, err := next(); err == nil {
					t.Error("no error after the context ended")
				}
				synctest.Wait()
			})
		})
	}
}

func TestAWatchFromACompactedVersionIsExpired(t *testing.T) {
	s := listwatchtest.New()
	s.Put("a", 1)
	rv := strconv.Itoa(s.RV())
	s.Put("a", 2)
	s.Compact(0)
	w, err := (&listwatchtest.View{Server: s}).Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
	if err == nil {
		_, err = w.Next()
		_ = w.Close()
	}
	if kube.Classify(err) != kube.OutcomeExpired {
		t.Errorf("error %v", err)
	}
}

func TestFaultsApplyToTheFirstRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listwatchtest.New()
		s.Put("a", 1)
		s.Fail(listwatchtest.Faults(listwatchtest.Fault{Refuse: true}, listwatchtest.Fault{End: "cut"},
			listwatchtest.Fault{Delay: time.Minute}))
		v := &listwatchtest.View{Server: s}
		list := func() error {
			_, err := v.List(t.Context(), metav1.ListOptions{}, func([]byte) error { return nil })
			return err
		}
		if err := list(); !errors.Is(err, listwatchtest.ErrRefused) {
			t.Errorf("refused: %v", err)
		}
		if err := list(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut: %v", err)
		}
		begun := time.Now()
		if err := list(); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("delayed: %v after %v", err, time.Since(begun))
		}
		if err := list(); err != nil || len(s.Requests()) != 4 {
			t.Errorf("%v, %d requests", err, len(s.Requests()))
		}
	})
}

func TestRestoreBringsBackTheSavedObjects(t *testing.T) {
	s := listwatchtest.New()
	s.Put("a", 1)
	saved := s.Save()
	s.Put("b", 1)
	s.Restore(saved)
	if objects := s.Objects(); len(objects) != 1 || s.RV() != 1001 {
		t.Errorf("%d objects at %d", len(objects), s.RV())
	}
	if _, found := s.ObjectsAt(0, 1002); !found {
		t.Error("the lost history is gone")
	}
	if _, found := s.ObjectsAt(1, 1002); found {
		t.Error("the restored history has a version of the lost one")
	}
}
