package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// states takes the events of pod p until it is gone, as "MODIFIED deleting grace=0 generation=2".
func (w *watcher) states() []string {
	w.t.Helper()
	var lines []string
	var last kube.ResourceVersion
	for {
		e := w.next()
		if e.Object == nil || e.Object.Key().Name != "p" {
			continue
		}
		if e.Object.ResourceVersion() <= last {
			w.t.Errorf("version %d follows %d", e.Object.ResourceVersion(), last)
		}
		last = e.Object.ResourceVersion()
		line := e.Type.String()
		if e.Object.Deleting() {
			line += fmt.Sprintf(" deleting grace=%v", field(w.t, e.Object, "metadata", "deletionGracePeriodSeconds"))
		}
		lines = append(lines, fmt.Sprintf("%s generation=%d", line, e.Object.Generation()))
		if e.Type == kube.Deleted {
			return lines
		}
	}
}

// TestAPodWithoutGraceIsMarkedBeforeItIsRemoved: whoever ends a pod at once, readers see it as
// being deleted first.
func TestAPodWithoutGraceIsMarkedBeforeItIsRemoved(t *testing.T) {
	const unscheduled = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	marked := []string{"MODIFIED deleting grace=0 generation=2", "DELETED deleting grace=0 generation=2"}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	at := func(s *server) kinds.Target { return s.at("pods", "default", "p") }
	drop := func(s *server, o metav1.DeleteOptions) error {
		_, err := s.Delete(t.Context(), at(s), o)
		return err
	}
	for name, c := range map[string]struct {
		pod  string
		end  func(s *server) error
		want []string
	}{
		"without a node": {unscheduled, func(s *server) error { return drop(s, metav1.DeleteOptions{}) }, marked},
		"grace 0":        {podOnNode, func(s *server) error { return drop(s, now) }, marked},
		"finished": {podOnNode, func(s *server) error {
			s.merge(s.at("pods", "default", "p", "status"), `{"status":{"phase":"Succeeded"}}`)
			return drop(s, metav1.DeleteOptions{})
		}, append([]string{"MODIFIED generation=1"}, marked...)},
		"terminating already": {podOnNode, func(s *server) error {
			return errors.Join(drop(s, metav1.DeleteOptions{}), drop(s, now))
		}, append([]string{"MODIFIED deleting grace=20 generation=2"}, marked...)},
		"with preconditions": {unscheduled, func(s *server) error {
			o := s.get(at(s))
			uid, rv := o.UID(), o.ResourceVersion().String()
			return drop(s, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}})
		}, marked},
		"its collection": {unscheduled, func(s *server) error {
			_, err := s.DeleteCollection(t.Context(), s.at("pods", "default"), metav1.DeleteOptions{}, options(nil))
			return err
		}, marked},
		"evicted": {unscheduled, func(s *server) error {
			_, err := s.post(s.at("pods", "default", "p", "eviction"), eviction("p"))
			return err
		}, append([]string{"MODIFIED generation=1"}, marked...)}, // first a condition
		"the last finalizer": {strings.Replace(unscheduled, `"p"`, `"p","finalizers":["x.io/f"]`, 1), func(s *server) error {
			err := drop(s, metav1.DeleteOptions{})
			s.merge(at(s), `{"metadata":{"finalizers":null}}`)
			return err
		}, marked},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			created := s.create(s.at("pods", "default"), c.pod)
			w := s.watch(s.at("pods"), func(o *wire.ListOptions) { o.ResourceVersion = created.ResourceVersion().String() })
			if err := c.end(s); err != nil {
				t.Fatalf("end: %v", err)
			}
			if diff := cmp.Diff(c.want, w.states()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPodsOfADeletedNamespaceAreMarkedBeforeTheyAreRemoved(t *testing.T) {
	s := serve(t)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	w := s.watch(s.at("pods", "n"), nil)
	s.create(s.at("pods", "n"), podOnNode) // the node does not exist
	s.delete(s.at("namespaces", "", "n"))
	want := []string{"ADDED generation=1", "MODIFIED deleting grace=0 generation=2", "DELETED deleting grace=0 generation=2"}
	if diff := cmp.Diff(want, w.states()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTheAnswerOfADeletionIsTheDeletedEvent holds for the kinds that answer with the object.
func TestTheAnswerOfADeletionIsTheDeletedEvent(t *testing.T) {
	for _, c := range []struct{ resource, body string }{
		{"pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"serviceaccounts", `{"metadata":{"name":"p"}}`},
	} {
		t.Run(c.resource, func(t *testing.T) {
			s := serve(t)
			s.create(s.at(c.resource, "default"), c.body)
			w := s.watch(s.at(c.resource), nil)
			answer := s.delete(s.at(c.resource, "default", "p")).Object
			event := w.until(kube.Deleted, "default/p").Object
			if answer == nil || string(answer.JSON()) != string(event.JSON()) {
				t.Errorf("answer\n%s\nevent\n%s", answer.JSON(), event.JSON())
			}
		})
	}
}

func TestADryRunOfAnImmediateDeletionShowsTheMarkAndWritesNothing(t *testing.T) {
	s := serve(t)
	was := s.create(s.at("pods", "default"), pod("p"))
	out, err := s.Delete(t.Context(), s.at("pods", "default", "p"), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || out.Object == nil || !out.Object.Deleting() || out.Object.ResourceVersion() != was.ResourceVersion() {
		t.Errorf("answer %+v, %v", out, err)
	}
	if is := s.get(s.at("pods", "default", "p")); is != was {
		t.Errorf("it is %s", is.JSON())
	}
}

// between calls do once, before a record is removed.
type between struct {
	store.Store
	do func() error
}

func (b *between) Commit(ctx context.Context, txn store.Txn) (store.Committed, error) {
	if do := b.do; txn.Delete && do != nil {
		b.do = nil
		if err := do(); err != nil {
			return store.Committed{}, err
		}
	}
	return b.Store.Commit(ctx, txn)
}

func TestAnImmediateDeletionThatEndedHalfwayIsFinishedByTheNext(t *testing.T) {
	log, b := openLog(t), &between{}
	s, stop := serveOn(t, log, func(below store.Store) store.Store { b.Store = below; return b })
	b.do = func() error { return errors.New("the server ends") }
	at := s.at("pods", "default", "p")
	s.create(s.at("pods", "default"), pod("p"))
	if _, err := s.Delete(t.Context(), at, metav1.DeleteOptions{}); err == nil {
		t.Error("the deletion succeeds although its second step failed")
	}
	stop()
	s, _ = serveOn(t, log, nil)
	left := s.get(at)
	if !left.Deleting() || field(t, left, "metadata", "deletionGracePeriodSeconds") != float64(0) {
		t.Fatalf("left: %s", left.JSON())
	}
	w := s.watch(s.at("pods"), func(o *wire.ListOptions) { o.ResourceVersion = left.ResourceVersion().String() })
	s.delete(at)
	if diff := cmp.Diff([]string{"DELETED deleting grace=0 generation=2"}, w.states()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWhoRemovesAMarkedPodFirstDoesNotMatter: a second deletion comes between the two steps of the
// first, and then another pod of the name. Both deletions succeed, and the new pod stays.
func TestWhoRemovesAMarkedPodFirstDoesNotMatter(t *testing.T) {
	b := &between{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { b.Store = below; return b })
	at := s.at("pods", "default", "p")
	was := s.create(s.at("pods", "default"), pod("p"))
	b.do = func() error {
		// Not through the registry, whose order of writers this writer is in.
		found, err := b.Read(t.Context(), store.Query{Start: "pods/default/p", End: "pods/default/p\x00"})
		if err != nil || len(found.Records) != 1 {
			return fmt.Errorf("read the marked pod: %+v, %w", found, err)
		}
		record := found.Records[0]
		if _, err := b.Store.Commit(t.Context(), store.Txn{
			Key: record.Key, Delete: true, ExpectedModRevision: record.ModRevision,
		}); err != nil {
			return err
		}
		other := strings.Replace(string(record.Value), string(was.UID()), "11111111-1111-4111-8111-111111111111", 1)
		_, err = b.Store.Commit(t.Context(), store.Txn{Key: record.Key, Value: []byte(other)})
		return err
	}
	out, err := s.Delete(t.Context(), at, metav1.DeleteOptions{})
	if err != nil || out.Object == nil || out.Object.UID() != was.UID() || !out.Object.Deleting() {
		t.Errorf("answer %+v, %v", out, err)
	}
	if is := s.get(at); is.UID() == was.UID() {
		t.Errorf("it is %s", is.JSON())
	}
}

// TestATerminatingPodThatHasFinishedKeepsTheGraceThatIsAskedFor: for a pod that is terminating already, only what
// the request says counts, not that it has finished meanwhile.
func TestATerminatingPodThatHasFinishedKeepsTheGraceThatIsAskedFor(t *testing.T) {
	s := serve(t)
	at := s.at("pods", "default", "p")
	s.create(s.at("pods", "default"), podOnNode)
	s.delete(at)
	s.merge(s.at("pods", "default", "p", "status"), `{"status":{"phase":"Succeeded"}}`)
	out, err := s.Delete(t.Context(), at, metav1.DeleteOptions{GracePeriodSeconds: new(int64(10))})
	if err != nil || field(t, out.Object, "metadata", "deletionGracePeriodSeconds") != float64(10) {
		t.Errorf("answer %+v, %v", out, err)
	}
	if is := s.get(at); !is.Deleting() {
		t.Errorf("it is %s", is.JSON())
	}
}

func TestPluginsAreAskedAboutEachStepOfAnImmediateDeletion(t *testing.T) {
	p := &reviewer{}
	s := reviewed(t, p)
	s.create(s.at("pods", "default"), pod("p"))
	p.heard()
	if _, err := s.Delete(t.Context(), by(s.at("pods", "default", "p")), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	const admit = `admit DELETE Pod pods name="p" - p(uid=true) *v1.DeleteOptions`
	validate := strings.Replace(admit, "admit", "validate", 1)
	if diff := cmp.Diff([]string{admit, validate, admit, validate}, p.heard()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnEvictedPodSaysSoInItsStatus(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), podOnNode)
	s.merge(s.at("pods", "default", "p", "status"), running)
	if _, err := s.post(s.at("pods", "default", "p", "eviction"), eviction("p")); err != nil {
		t.Fatalf("post: %v", err)
	}
	conditions, _ := field(t, s.get(s.at("pods", "default", "p")), "status", "conditions").([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] == "DisruptionTarget" && c["status"] == "True" && c["reason"] == "EvictionByEvictionAPI" &&
			c["lastTransitionTime"] != nil {
			return
		}
	}
	t.Errorf("conditions %v", conditions)
}
