package registry_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// unread are the options that delete an object which cannot be read.
func unread(set ...func(*metav1.DeleteOptions)) metav1.DeleteOptions {
	o := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}
	for _, set := range set {
		set(&o)
	}
	return o
}

// TestAnObjectThatCannotBeReadIsDeletedOnRequest: nobody is asked but who says whether the caller may, and the
// resource is served again.
func TestAnObjectThatCannotBeReadIsDeletedOnRequest(t *testing.T) {
	for what, before := range map[string]string{"known": inStore("b", "1"), "unknown": damaged} {
		t.Run(what, func(t *testing.T) {
			plugins := &reviewer{}
			s, _ := sharing(t, openLog(t), registry.Config{Admission: plugins})
			s.create(s.at("configmaps", "default"), configMap("a"))
			s.store("configmaps/default/b", before)
			s.store("configmaps/default/b", damaged)
			b := by(s.at("configmaps", "default", "b"))
			forbidden := errors.New("not you")
			refused := b
			refused.MayDeleteUnread = func(context.Context) error { return forbidden }
			if _, err := s.Delete(t.Context(), refused, unread()); !errors.Is(err, forbidden) {
				t.Errorf("without permission: %v", err)
			}
			for _, dry := range []bool{true, false} {
				if len(s.Unreadable()) != 1 {
					t.Fatalf("unreadable are %v", s.Unreadable())
				}
				o := unread(func(o *metav1.DeleteOptions) {
					if dry {
						o.DryRun = []string{"All"}
					}
				})
				out, err := s.Delete(t.Context(), b, o)
				if err != nil || out.Object != nil || out.Status.Status != metav1.StatusSuccess ||
					out.Status.Code != http.StatusOK ||
					out.Status.Details.Name != "b" || out.Status.Details.Kind != "ConfigMap" {
					t.Fatalf("dry %t: %+v, %v", dry, out.Status, err)
				}
			}
			if got := names(s.list(s.at("configmaps", "default"), nil)); !slices.Equal(got, []string{"default/a"}) {
				t.Errorf("then there are %v", got)
			}
			_, err := s.Delete(t.Context(), b, unread())
			if wire.StatusOf(err).Code != http.StatusNotFound {
				t.Errorf("again: %v", err)
			}
			if len(plugins.asked) > 0 {
				t.Errorf("plugins were asked: %v", plugins.asked)
			}
		})
	}
}

func TestWatchersOfAnObjectThatIsDeletedUnreadStartAgain(t *testing.T) {
	s, _ := sharing(t, openLog(t), registry.Config{})
	from := s.create(s.at("configmaps", "default"), configMap("b")).ResourceVersion()
	open := s.watch(s.at("configmaps"), nil)
	open.take(2)
	s.store("configmaps/default/b", damaged)
	if _, err := s.Delete(t.Context(), s.at("configmaps", "default", "b"), unread()); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, ended := open.Next(t.Context())
	_, again := s.Watch(t.Context(), s.at("configmaps"), options(func(o *wire.ListOptions) { o.ResourceVersion = from.String() }))
	for what, err := range map[string]error{"a watch that was open": ended, "a watch from before": again} {
		if e := expired(err); e == nil || e.Reason != kube.ReasonUnreadable {
			t.Errorf("%s gets %v", what, err)
		}
	}
}

func TestAnObjectThatCanBeReadIsNotDeletedUnread(t *testing.T) {
	s, _ := sharing(t, openLog(t), registry.Config{})
	s.create(s.at("configmaps", "default"), configMap("a"))
	s.create(s.at("pods", "default"), pod("p"))
	_, err := s.Delete(t.Context(), s.at("configmaps", "default", "a"), unread())
	if got := status(err); got != `409 Conflict Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, `+
		`Code: 4, Key: /configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because `+
		`the object is decodable from storage` {
		t.Errorf("an object that can be read: %s", got)
	}
	for name, c := range map[string]struct {
		set  func(*metav1.DeleteOptions)
		want string
	}{
		"propagationPolicy": {
			func(o *metav1.DeleteOptions) { o.PropagationPolicy = new(metav1.DeletePropagationOrphan) }, ".propagationPolicy",
		},
		"gracePeriodSeconds": {func(o *metav1.DeleteOptions) { o.GracePeriodSeconds = new(int64) }, ".gracePeriodSeconds"},
		"preconditions":      {func(o *metav1.DeleteOptions) { o.Preconditions = &metav1.Preconditions{} }, ".preconditions"},
	} {
		_, err := s.Delete(t.Context(), s.at("configmaps", "default", "a"), unread(c.set))
		if got := wire.StatusOf(err); got.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Message, "cannot be set together with "+c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = s.DeleteCollection(t.Context(), s.at("configmaps", "default"), unread(), options(nil))
	if got := wire.StatusOf(err); got.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Message, "is not allowed with DELETECOLLECTION, try again after removing the option") {
		t.Errorf("delete all: %v", err)
	}
	body := strings.Replace(eviction("p"), `"metadata"`,
		`"deleteOptions":{"ignoreStoreReadErrorWithClusterBreakingPotential":true},"metadata"`, 1)
	_, err = s.post(s.at("pods", "default", "p", "eviction"), body)
	if got := wire.StatusOf(err); got.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Message, "can not be set for pod eviction, try after removing the option") {
		t.Errorf("evict: %v", err)
	}
	s.get(s.at("configmaps", "default", "a"))
	s.get(s.at("pods", "default", "p"))
}

// overtaking writes another value of a key before it is deleted. Like etcd it does not say of a value that cannot be
// read that it is a conflict.
type overtaking struct {
	store.Store

	values []string // the next one is written then
}

func (o *overtaking) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if t.Delete && len(o.values) > 0 {
		_, err := o.Store.Commit(ctx, store.Txn{
			Key: t.Key, Value: []byte(o.values[0]), ExpectedModRevision: t.ExpectedModRevision,
		})
		if err != nil {
			return store.Committed{}, err
		}
		o.values = o.values[1:]
	}
	done, err := o.Store.Commit(ctx, t)
	conflict, is := errors.AsType[*store.ConflictError](err)
	if is && conflict.Current != nil && strings.HasPrefix(string(conflict.Current.Value), damaged) {
		return done, &store.UnreadableError{Key: t.Key, Revision: conflict.Current.ModRevision, Malformed: true, Cause: errSealed}
	}
	return done, err
}

// TestAnObjectThatIsReplacedMeanwhileIsDeletedOnlyIfItCannotBeRead: what is deleted is what was looked at.
func TestAnObjectThatIsReplacedMeanwhileIsDeletedOnlyIfItCannotBeRead(t *testing.T) {
	for last, want := range map[string]int32{damaged: 0, inStore("b", "new"): http.StatusConflict} {
		log := openLog(t)
		s, _ := sharing(t, log, registry.Config{Store: &overtaking{log, []string{damaged + " again", last}}})
		s.store("configmaps/default/b", damaged)
		_, err := s.Delete(t.Context(), s.at("configmaps", "default", "b"), unread())
		if err != nil && wire.StatusOf(err).Code != want || err == nil && want != 0 {
			t.Errorf("with %s: %v, want %d", last, err, want)
		}
		if got := len(names(s.list(s.at("configmaps", "default"), nil))); got != min(int(want), 1) {
			t.Errorf("with %s there are %d", last, got)
		}
	}
	log := openLog(t)
	s, _ := sharing(t, log, registry.Config{Store: &overtaking{log, slices.Repeat([]string{damaged}, 100)}})
	s.store("configmaps/default/b", damaged)
	_, err := s.Delete(t.Context(), s.at("configmaps", "default", "b"), unread())
	if wire.StatusOf(err).Code != http.StatusConflict {
		t.Errorf("an object that is written all the time: %v", err)
	}
}

// TestANamespaceThatCannotBeReadIsDeletedOnRequest, with its content left; one that always exists is there again.
func TestANamespaceThatCannotBeReadIsDeletedOnRequest(t *testing.T) {
	s, _ := sharing(t, openLog(t), registry.Config{})
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	s.create(s.at("configmaps", "n"), configMap("a"))
	for _, name := range []string{"n", "default"} {
		s.store("namespaces/"+name, damaged)
		if _, err := s.Delete(t.Context(), s.at("namespaces", "", name), unread()); err != nil {
			t.Fatalf("delete %s: %v", name, err)
		}
	}
	s.create(s.at("configmaps", "default"), configMap("a"))
	s.get(s.at("configmaps", "n", "a"))
	_, err := s.Get(t.Context(), s.at("namespaces", "", "n"), "")
	if wire.StatusOf(err).Code != http.StatusNotFound {
		t.Errorf("the namespace is there: %v", err)
	}
}

// TestAPolicyThatCannotBeReadIsDeletedOnRequest: until then it forbids what nobody can decide.
func TestAPolicyThatCannotBeReadIsDeletedOnRequest(t *testing.T) {
	s, _ := sharing(t, openLog(t), registry.Config{
		Admission: &reviewer{validate: func(context.Context, admission.Attributes) error { return nil }},
		Followers: []registry.Follower{policies{}},
	})
	s.store("validatingadmissionpolicies.admissionregistration.k8s.io/p", damaged)
	s.store("configmaps/default/b", damaged)
	for _, at := range []kinds.Target{
		s.at("configmaps", "default", "b"), s.at("admissionregistration.k8s.io/v1/validatingadmissionpolicies", "", "p"),
	} {
		if _, err := s.Delete(t.Context(), by(at), unread()); err != nil {
			t.Errorf("delete %s: %v", at.Name, err)
		}
	}
	s.create(by(s.at("configmaps", "default")), configMap("b"))
}
