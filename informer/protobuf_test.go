package informer_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

// while runs an informer while f looks at it.
func while[T informer.Object](t *testing.T, source informer.Source[T], f func(i *informer.Informer[T]), opts ...informer.Option) {
	t.Helper()
	i := informer.New(source, opts...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	f(i)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

func podsGVR() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("pods") }

func TestProtobufAndJSONGiveTheSameObjects(t *testing.T) {
	for name, opts := range map[string][]informer.Option{"list": {informer.NoStreamingLists()}, "streaming list": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 100
				inJSON, inProtobuf := newPodServer(t, n), newPodServer(t, n)
				text := informer.For[*corev1.Pod](listwatchtest.Config(inJSON), podsGVR(), informer.JSONOnly())
				while(t, text, func(text *informer.Informer[*corev1.Pod]) {
					while(t, informer.For[*corev1.Pod](listwatchtest.Config(inProtobuf), podsGVR()),
						func(binary *informer.Informer[*corev1.Pod]) {
							for _, s := range []podServer{inJSON, inProtobuf} {
								after(time.Second)
								s.put(t, 7)
								s.DeleteKey(podKey(t, 8))
								s.Tick()
								s.Bookmark()
							}
							synctest.Wait()
							if diff := cmp.Diff(maps.Collect(text.All()), maps.Collect(binary.All())); diff != "" {
								t.Error(diff)
							}
							if text.Len() != n-1 || text.ResourceVersion() != "1103" || binary.ResourceVersion() != "1103" {
								t.Errorf("%d objects at %s and %s", text.Len(), text.ResourceVersion(), binary.ResourceVersion())
							}
							for _, s := range []informer.Status{text.Status(), binary.Status()} {
								if s.Last != nil {
									t.Errorf("incident %v", s.Last)
								}
							}
						}, opts...)
				}, opts...)
				if a, b := strings.Join(inJSON.seen(), ","), strings.Join(inProtobuf.seen(),
					","); strings.Contains(a, "protobuf") || strings.Contains(b, "json") {
					t.Errorf("asked for %s, and for %s", a, b)
				}
			})
		})
	}
}

// TestTheInformerFallsBackFromProtobufToJSON: and remembered, with an incident if
// the server was to blame.
func TestTheInformerFallsBackFromProtobufToJSON(t *testing.T) {
	for _, c := range []struct {
		has  string
		opts []informer.Option
		want []string // the requests, with another watch at the end
		why  []informer.IncidentKind
	}{
		{has: "", want: []string{"WATCH protobuf", "WATCH protobuf"}},
		{has: "json", want: []string{"WATCH protobuf", "WATCH protobuf"}},
		{has: "406", want: []string{"WATCH protobuf", "WATCH json", "WATCH json"}},
		{
			has: "406", opts: []informer.Option{informer.NoStreamingLists()},
			want: []string{"LIST protobuf", "LIST json", "WATCH json", "WATCH json"},
		},
		{
			has: "broken lists", opts: []informer.Option{informer.NoStreamingLists()},
			want: []string{"LIST protobuf", "LIST json", "WATCH json", "WATCH json"},
			why:  []informer.IncidentKind{informer.Undecodable},
		},
		{
			has: "broken frames", opts: []informer.Option{informer.NoStreamingLists()},
			want: []string{"LIST protobuf", "WATCH protobuf", "WATCH json", "WATCH json"},
			why:  []informer.IncidentKind{informer.Undecodable},
		},
		{
			has: "broken frames", want: []string{"WATCH protobuf", "WATCH json", "WATCH json"},
			why: []informer.IncidentKind{informer.Undecodable},
		},
	} {
		t.Run(fmt.Sprintf("%q, %d options", c.has, len(c.opts)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPodServer(t, 5)
				s.Fail(without(c.has))
				var why []informer.IncidentKind
				opts := append(c.opts, informer.OnError(func(in informer.Incident) {
					if in.Kind != informer.Disconnected {
						why = append(why, in.Kind)
					}
				}))
				while(t, informer.For[*corev1.Pod](listwatchtest.Config(s), podsGVR()), func(i *informer.Informer[*corev1.Pod]) {
					after(30 * time.Second)
					s.EndWatches(apierrors.NewInternalError(fmt.Errorf("once")).ErrStatus)
					after(30 * time.Second)
					if i.Len() != 5 {
						t.Errorf("%d pods", i.Len())
					}
				}, opts...)
				if diff := cmp.Diff(c.want, s.seen()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(append(c.why, informer.ServerError), why); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestPodsFallBackToJSONWhenTheirProtobufIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPodServer(t, 5)
		s.Fail(without("broken pods"))
		while(t, informer.For[*corev1.Pod](listwatchtest.Config(s), podsGVR()), func(i *informer.Informer[*corev1.Pod]) {
			after(time.Second)
			if st := i.Status(); st.Incidents[informer.Undecodable] == 0 || i.Len() != 0 {
				t.Errorf("%+v", st)
			}
			s.EndWatches(apierrors.NewResourceExpired("gone").ErrStatus)
			after(time.Second)
			if st := i.Status(); i.Len() != 5 || st.Undecodable != 0 {
				t.Errorf("%d pods, %+v", i.Len(), st)
			}
		})
		if got := s.seen(); !slices.Equal(got, []string{"WATCH protobuf", "WATCH json"}) {
			t.Error(got)
		}
	})
}

func TestARelistInProtobufKeepsUnchangedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPodServer(t, 300)
		s.Fail(listwatchtest.Faults(fault{Behind: 1}))
		var calls []string
		while(t, informer.For[*corev1.Pod](listwatchtest.Config(s), podsGVR()), func(i *informer.Informer[*corev1.Pod]) {
			after(time.Second)
			i.Handle(func(_ context.Context, e informer.Event[*corev1.Pod]) error {
				calls = append(calls, fmt.Sprint(e.Type, " ", e.Object().ResourceVersion))
				return nil
			}, informer.SkipInitial())
			before := maps.Collect(i.All())
			s.put(t, 3) // the watch that is open does not show it
			changed := podKey(t, 3).Name
			s.EndWatches(apierrors.NewResourceExpired("too old resource version").ErrStatus)
			after(time.Second)
			for key, p := range i.All() {
				if (p == before[key]) == (key.Name == changed) {
					t.Errorf("%s: kept its pointer: %t", key, p == before[key])
				}
			}
			if st := i.Status(); st.Gone != 1 || i.Len() != 300 || kube.Classify(st.Last.Err) != kube.OutcomeExpired {
				t.Errorf("%+v", st)
			}
		})
		if !slices.Equal(calls, []string{"Modified 1301"}) {
			t.Error(calls)
		}
	})
}

func TestManagedFieldsAreDroppedFromProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPodServer(t, 70)
		while(t, informer.For[*corev1.Pod](listwatchtest.Config(s), podsGVR(), informer.StripManagedFields()),
			func(i *informer.Informer[*corev1.Pod]) {
				after(time.Second)
				n := 0
				for key, p := range i.All() {
					want := s.pod(t, key)
					if len(want.ManagedFields) == 0 {
						t.Fatal("there is nothing to leave out")
					}
					want.ManagedFields, want.TypeMeta = nil, p.TypeMeta
					if diff := cmp.Diff(want, p); diff != "" {
						t.Fatal(diff)
					}
					n++
				}
				if n != 70 || s.seen()[0] != "WATCH protobuf" {
					t.Errorf("%d pods, %v", n, s.seen())
				}
			})
	})
}

func TestEncodedObjectsAreKeptInProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPodServer(t, 70)
		source := informer.Encode(informer.For[*corev1.Pod](listwatchtest.Config(s), podsGVR()))
		dir := t.TempDir()
		var before map[informer.Key]*corev1.Pod
		while(t, source, func(i *informer.Informer[*corev1.Pod]) {
			after(time.Second)
			before = maps.Collect(i.All())
			for key, p := range before {
				want := s.pod(t, key)
				want.TypeMeta = p.TypeMeta
				if diff := cmp.Diff(want, p); diff != "" {
					t.Fatal(diff)
				}
			}
			if len(before) != 70 || s.seen()[0] != "WATCH protobuf" {
				t.Errorf("%d pods, %v", len(before), s.seen())
			}
			after(time.Minute) // the snapshot file is written
		}, informer.Persist(dir))
		s.Fail(listwatchtest.Faults(fault{Refuse: true}))
		while(t, source, func(i *informer.Informer[*corev1.Pod]) {
			after(time.Second)
			if diff := cmp.Diff(before, maps.Collect(i.All())); diff != "" {
				t.Errorf("from the file: %s", diff)
			}
		}, informer.Persist(dir))
	})
}

func TestTypesWithoutProtobufAreRequestedInJSON(t *testing.T) {
	type slim struct {
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	}
	check := func(name string, run func(t *testing.T, s podServer)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPodServer(t, 5)
				run(t, s)
				if got := s.seen(); !slices.Equal(got, []string{"WATCH json"}) {
					t.Error(got)
				}
			})
		})
	}
	check("a type of one's own", func(t *testing.T, s podServer) {
		t.Helper()
		five(t, informer.For[*slim](listwatchtest.Config(s), podsGVR()))
	})
	check("unstructured", func(t *testing.T, s podServer) {
		t.Helper()
		five(t, informer.Dynamic(listwatchtest.Config(s), podsGVR()))
	})
	check("what the configuration accepts", func(t *testing.T, s podServer) {
		t.Helper()
		cfg := listwatchtest.Config(s)
		cfg.AcceptContentTypes = "application/json"
		five(t, informer.For[*corev1.Pod](cfg, podsGVR()))
	})
}

func five[T informer.Object](t *testing.T, source informer.Source[T]) {
	t.Helper()
	while(t, source, func(i *informer.Informer[T]) {
		after(time.Second)
		for key := range i.All() {
			if o, is := i.Get(key); !is || o.GetLabels()["team"] != "core" || o.GetUID() == "" {
				t.Errorf("%s is %v", key, o)
			}
		}
		if i.Len() != 5 {
			t.Errorf("%d objects, %+v", i.Len(), i.Status())
		}
	})
}
