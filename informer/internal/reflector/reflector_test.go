package reflector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

type object struct {
	metav1.ObjectMeta `json:"metadata"`

	Broken bool `json:"broken"`
}

// decode refuses objects that are broken.
func decode(raw []byte) (handle.Handle[*object], error) {
	o := new(object)
	if err := json.Unmarshal(raw, o); err != nil || o.Broken {
		return handle.Handle[*object]{}, &kube.DecodeError{Offset: -1, Why: "broken"}
	}
	return handle.Of(o), nil
}

// text is an object with its name as UID: "a@5" is a at version 5, "a@5!" is broken.
func text(s string) []byte {
	name, rv, _ := strings.Cut(s, "@")
	rv, broken := strings.CutSuffix(rv, "!")
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":%q},"broken":%t}`, name, name, rv, broken)
}

// answer is what the server does with one request: it sends objects or frames and then
// returns err. A watch without err stays open.
type answer struct {
	rv, next string   // of a list: its version, and the continue token
	items    []string // of a list
	frames   []string // of a watch: "ADDED a@5", "END 7" (of initial events), "BOOKMARK 7"
	refuse   error    // instead of all
	err      error    // at the end of a watch
}

// server answers requests in order and notes them. When there are no more answers,
// watches are silent.
type server struct {
	answers  []answer
	requests []string
	lends    bool   // objects are valid until the next one is asked for
	lent     []byte // the last one
}

// lend returns an object that the server lends, if it does, and spoils the last one.
func (s *server) lend(object []byte) []byte {
	clear(s.lent)
	if s.lends {
		s.lent = object
	}
	return object
}

func (s *server) take(request string) answer {
	s.requests = append(s.requests, request)
	if len(s.answers) == 0 {
		return answer{}
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next
}

func (s *server) list(_ context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	a := s.take(fmt.Sprintf("list rv=%q continue=%q", o.ResourceVersion, o.Continue))
	for _, item := range a.items {
		if err := each(s.lend(text(item))); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: a.rv, Continue: a.next}, a.refuse
}

func (s *server) watch(ctx context.Context, o metav1.ListOptions) (client.Stream, error) {
	name := "watch"
	if o.SendInitialEvents != nil {
		name = "stream"
	}
	a := s.take(fmt.Sprintf("%s rv=%q", name, o.ResourceVersion))
	if a.refuse != nil {
		return nil, a.refuse
	}
	return &stream{ctx: ctx, server: s, answer: a}, nil
}

// stream is one open watch.
type stream struct {
	ctx    context.Context //nolint:containedctx // the request's
	server *server
	answer
}

func (s *stream) Next() (client.Frame, error) {
	s.server.lend(nil)
	if len(s.frames) == 0 {
		if s.err == nil {
			<-s.ctx.Done()
			return client.Frame{}, s.ctx.Err()
		}
		return client.Frame{}, s.err
	}
	kind, of, _ := strings.Cut(s.frames[0], " ")
	s.frames = s.frames[1:]
	types := map[string]kube.EventType{
		"ADDED": kube.Added, "MODIFIED": kube.Modified, "DELETED": kube.Deleted,
		"BOOKMARK": kube.Bookmark, "END": kube.InitialEventsEnd,
	}
	if kind == "BOOKMARK" || kind == "END" {
		return client.Frame{Type: types[kind], Object: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, of)}, nil
	}
	return client.Frame{Type: types[kind], Object: s.server.lend(text(of))}, nil
}

func (s *stream) Ready() bool  { return len(s.frames) > 0 || s.err != nil }
func (s *stream) Close() error { return nil }

// host notes what a reflector publishes and reports.
type host struct {
	published []string
	incidents []string
}

func (h *host) Publish(changes []state.Change[*object], rv string, read reflector.Extent) {
	all := []string{
		map[reflector.Extent]string{
			reflector.Events: "events", reflector.Whole: "whole", reflector.Rewritten: "rewritten",
		}[read] + " at " + rv + ":",
	}
	for _, c := range changes {
		switch {
		case c.New.Get() == nil:
			all = append(all, "-"+c.Key.Name)
		case c.Old.Get() == nil:
			all = append(all, "+"+c.Key.Name)
		default:
			all = append(all, "~"+c.Key.Name)
		}
	}
	h.published = append(h.published, strings.Join(all, " "))
}

func (h *host) Report(in incident.Incident) {
	h.incidents = append(h.incidents, in.Kind.String())
}

func (h *host) Begin(transition.Action) {}
func (h *host) End(reflector.Ending)    {}

func expired() error { return apierrors.NewResourceExpired("too old") }

func denied() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
}

// errListNow asks for LIST.
var errListNow = errors.New("list now")

// played is what a reflector did, and the error of its Run.
type played struct {
	server    *server
	host      *host
	reflector *reflector.Reflector[*object]
	err       error
}

// run runs a reflector for a minute against answers.
func run(t *testing.T, begin transition.State, answers ...answer) played {
	t.Helper()
	return runOn(t, &server{answers: answers}, begin)
}

// runOn runs a reflector for a minute on a server.
func runOn(t *testing.T, s *server, begin transition.State) played {
	t.Helper()
	h := &host{}
	r := reflector.New(reflector.Source[*object]{
		List: s.list, Watch: s.watch, Decode: decode, ListNow: errListNow, Lends: s.lends,
	}, h, begin)
	var err error
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = r.Run(ctx)
	})
	return played{s, h, r, err}
}

func TestReflectorFollowsTheTable(t *testing.T) {
	lists := transition.State{NoStream: true}
	for _, c := range []struct {
		name      string
		begin     transition.State
		answers   []answer
		requests  []string
		published []string
		incidents []string
	}{
		{
			"a list, then a watch from its version", lists,
			[]answer{{rv: "5", items: []string{"a@3", "b@4"}}, {frames: []string{"MODIFIED a@6", "DELETED b@7", "ADDED c@8"}}},
			[]string{`list rv="0" continue=""`, `watch rv="5"`},
			[]string{"whole at 5: +a +b", "events at 8: ~a -b +c"},
			nil,
		},
		{
			"a list in pages", lists,
			[]answer{{rv: "5", items: []string{"a@3"}, next: "more"}, {rv: "5", items: []string{"b@4"}}, {}},
			[]string{`list rv="0" continue=""`, `list rv="" continue="more"`, `watch rv="5"`},
			[]string{"whole at 5: +a +b"},
			nil,
		},
		{
			"a streaming list, whose watch goes on",
			transition.State{},
			[]answer{{frames: []string{"ADDED a@3", "ADDED b@4", "END 5", "MODIFIED b@6"}}},
			[]string{`stream rv=""`},
			[]string{"whole at 5: +a +b", "events at 6: ~b"},
			nil,
		},
		{
			"a source that asks for LIST",
			transition.State{},
			[]answer{{refuse: fmt.Errorf("stream: %w", errListNow)}, {rv: "5", items: []string{"a@3"}}, {}},
			[]string{`stream rv=""`, `list rv="0" continue=""`, `watch rv="5"`},
			[]string{"whole at 5: +a"},
			[]string{"no_streaming_list"},
		},
		{
			"410: the state again, and the exact difference", lists,
			[]answer{{rv: "5", items: []string{"a@3", "b@4"}}, {err: expired()}, {rv: "9", items: []string{"b@4", "c@8"}}, {}},
			[]string{`list rv="0" continue=""`, `watch rv="5"`, `list rv="5" continue=""`, `watch rv="9"`},
			[]string{"whole at 5: +a +b", "whole at 9: -a +c"},
			[]string{"gone"},
		},
		{
			"the end of a watch: the next one from its position", lists,
			[]answer{{rv: "5", items: []string{"a@3"}}, {frames: []string{"MODIFIED a@6", "BOOKMARK 7"}, err: io.EOF}, {}},
			[]string{`list rv="0" continue=""`, `watch rv="5"`, `watch rv="7"`},
			[]string{"whole at 5: +a", "events at 7: ~a"},
			nil,
		},
		{
			"a bookmark before the position: the history went back", lists,
			[]answer{{rv: "5", items: []string{"a@3"}}, {frames: []string{"BOOKMARK 2"}}, {rv: "2", items: []string{"a@3"}}, {}},
			[]string{`list rv="0" continue=""`, `watch rv="5"`, `list rv="" continue=""`, `watch rv="2"`},
			[]string{"whole at 5: +a", "rewritten at 2:"},
			[]string{"went_back"},
		},
		{
			"an event that is older than the cache", lists,
			[]answer{{rv: "5", items: []string{"a@5"}}, {frames: []string{"MODIFIED a@4"}}},
			[]string{`list rv="0" continue=""`, `watch rv="5"`},
			[]string{"whole at 5: +a"},
			[]string{"stale"},
		},
		{
			"a deletion of an object that the cache does not have: a gap", lists,
			[]answer{{rv: "5", items: []string{"a@3"}}, {frames: []string{"DELETED b@6"}}, {rv: "7", items: []string{"a@3"}}, {}},
			[]string{`list rv="0" continue=""`, `watch rv="5"`, `list rv="6" continue=""`, `watch rv="7"`},
			[]string{"whole at 5: +a", "events at 6:", "whole at 7:"},
			[]string{"gap"},
		},
		{
			"an object that cannot be decoded keeps its state", lists,
			[]answer{
				{rv: "5", items: []string{"a@3"}},
				{frames: []string{"MODIFIED a@6!"}, err: expired()},
				{rv: "7", items: []string{"a@6!"}},
				{},
			},
			[]string{`list rv="0" continue=""`, `watch rv="5"`, `list rv="6" continue=""`, `watch rv="7"`},
			[]string{"whole at 5: +a", "events at 6:", "whole at 7:"},
			[]string{"undecodable", "gone", "undecodable"},
		},
		{
			"pages that repeat: the list without pages", lists,
			[]answer{
				{rv: "5", items: []string{"a@3"}, next: "x"},
				{rv: "5", items: []string{"b@4"}, next: "x"},
				{rv: "5", items: []string{"a@3", "b@4"}},
				{},
			},
			[]string{`list rv="0" continue=""`, `list rv="" continue="x"`, `list rv="0" continue=""`, `watch rv="5"`},
			[]string{"whole at 5: +a +b"},
			[]string{"rejected"},
		},
	} {
		for _, lends := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lent: %t", c.name, lends), func(t *testing.T) {
				p := runOn(t, &server{answers: slices.Clone(c.answers), lends: lends}, c.begin)
				s, h, err := p.server, p.host, p.err
				if err != nil {
					t.Errorf("Run: %v", err)
				}
				if diff := cmp.Diff(c.requests, s.requests); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.published, h.published); diff != "" {
					t.Errorf("published (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.incidents, h.incidents); diff != "" {
					t.Errorf("incidents (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestStatusCountsRequestsAndUndecodableObjects(t *testing.T) {
	p := run(t, transition.State{}, answer{frames: []string{"ADDED a@3", "ADDED b@4!", "END 5"}, err: io.EOF}, answer{})
	got := p.reflector.Status()
	got.LastContact = time.Time{}
	want := reflector.Status{State: transition.Stopped, Undecodable: 1, Lists: 1, Streams: 1, Watches: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestRunReturnsTheErrorThatStop4xxGivesUpFor(t *testing.T) {
	begin := transition.State{NoStream: true, Tuning: transition.Defaults()}
	begin.Tuning.Stop4xx = true
	p := run(t, begin, answer{refuse: denied()})
	s, h, err := p.server, p.host, p.err
	if !apierrors.IsForbidden(err) || len(s.requests) != 1 {
		t.Errorf("Run returned %v after %q", err, s.requests)
	}
	if diff := cmp.Diff([]string{"denied"}, h.incidents); diff != "" {
		t.Errorf("incidents (-want +got):\n%s", diff)
	}
}

func TestASecondRunResumesAtThePositionOfTheFirst(t *testing.T) {
	p := run(t, transition.State{NoStream: true}, answer{rv: "5", items: []string{"a@3"}}, answer{frames: []string{"BOOKMARK 8"}})
	s, r := p.server, p.reflector
	s.requests = nil
	s.answers = []answer{{}, {rv: "8", items: []string{"a@3"}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	// It compares one object, because nothing was watched between.
	if diff := cmp.Diff([]string{`watch rv="8"`, `list rv="" continue=""`}, s.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestARestoredStateIsWatchedFromItsPosition(t *testing.T) {
	s, h := &server{}, &host{}
	r := reflector.New(reflector.Source[*object]{List: s.list, Watch: s.watch, Decode: decode}, h, transition.State{})
	tree := state.NewTree[*object]()
	a, err := decode(text("a@3"))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	tree.Put(a)
	r.Restore(tree, "5")
	s.answers = []answer{{frames: []string{"MODIFIED a@6"}}, {rv: "6", items: []string{"a@3"}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	if s.requests[0] != `watch rv="5"` {
		t.Errorf("the first request is %s", s.requests[0])
	}
	if diff := cmp.Diff([]string{"events at 6: ~a"}, h.published); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}
