package registry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// damaged is a value that no server can read. Its text must not be seen by a client.
const damaged = `"PRIVATE, and no object`

// sharing serves a store that others write to, and leads.
func sharing(t *testing.T, log *revlog.Log, cfg registry.Config) (s *server, stop func()) {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = log
	}
	cfg.Lead = func(ctx context.Context, work func(context.Context) error) error { return work(ctx) }
	return serveWith(t, log, cfg)
}

// store writes the value of a key past the registry, as another server does; "" deletes it. It returns when the
// registry has seen that.
func (s *server) store(key, value string) kube.ResourceVersion {
	s.t.Helper()
	page, err := s.log.Read(s.t.Context(), store.Query{Start: key})
	if err != nil {
		s.t.Fatalf("read %s: %v", key, err)
	}
	txn := store.Txn{Key: key, Value: []byte(value), Delete: value == ""}
	for _, r := range page.Records {
		txn.ExpectedModRevision = r.ModRevision
	}
	done, err := s.log.Commit(s.t.Context(), txn)
	if err != nil {
		s.t.Fatalf("write %s: %v", key, err)
	}
	if err := s.WaitPublished(s.t.Context(), kube.ResourceVersion(done.Revision)); err != nil {
		s.t.Fatalf("wait for %s: %v", key, err)
	}
	return kube.ResourceVersion(done.Revision)
}

// inStore is a ConfigMap as servers store it.
func inStore(name, data string) string {
	return `{"apiVersion":"v1","data":{"a":"` + data + `"},"kind":"ConfigMap","metadata":{"name":"` + name +
		`","namespace":"default","uid":"00000000-0000-0000-0000-0000000000aa"}}`
}

// checkUnreadable checks that an error is 500, names a key, and says nothing of the value.
func checkUnreadable(t *testing.T, what string, err error, key string) {
	t.Helper()
	s := wire.StatusOf(err)
	if err == nil || s.Code != http.StatusInternalServerError ||
		s.Reason != metav1.StatusReasonInternalError && s.Reason != metav1.StatusReasonStoreReadError ||
		!strings.Contains(s.Message, key) || strings.Contains(s.Message, "PRIVATE") {
		t.Errorf("%s: %v, want 500 with the key %s", what, err, key)
	}
}

func TestAValueThatCannotBeReadConcernsItsResourceOnly(t *testing.T) {
	log := openLog(t)
	s, stop := sharing(t, log, registry.Config{})
	at := func(name string) kinds.Target { return s.at("configmaps", "default", name) }
	for _, name := range []string{"a", "b"} {
		s.create(s.at("configmaps", "default"), configMap(name))
	}
	open, secrets := s.watch(s.at("configmaps"), nil), s.watch(s.at("secrets"), nil)
	open.take(3)
	secrets.take(1)
	s.store("configmaps/default/b", damaged)
	const key = `"configmaps/default/b"`
	check := func(s *server) {
		t.Helper()
		_, err := open.Next(t.Context())
		checkUnreadable(t, "the watch that was open", err, key)
		for _, rv := range []string{"", "0", s.get(at("a")).ResourceVersion().String()} {
			o := options(func(o *wire.ListOptions) { o.ResourceVersion = rv })
			_, err = s.List(t.Context(), s.at("configmaps", "default"), o)
			checkUnreadable(t, "list at "+rv, err, key)
			_, err = s.Watch(t.Context(), s.at("configmaps", "default"), o)
			checkUnreadable(t, "watch at "+rv, err, key)
			_, err = s.Get(t.Context(), at("b"), rv)
			checkUnreadable(t, "get at "+rv, err, key)
		}
		_, err = s.Update(t.Context(), at("b"), []byte(configMap("b")), metav1.UpdateOptions{})
		checkUnreadable(t, "update", err, key)
		_, err = s.Patch(t.Context(), at("b"), mergePatch(`{"data":{"a":"2"}}`), metav1.PatchOptions{})
		checkUnreadable(t, "patch", err, key)
		_, err = s.Delete(t.Context(), at("b"), metav1.DeleteOptions{})
		checkUnreadable(t, "delete", err, key)
		_, err = s.DeleteCollection(t.Context(), s.at("configmaps", "default"), metav1.DeleteOptions{}, options(nil))
		checkUnreadable(t, "delete all", err, key)
		if _, err := s.Create(t.Context(), s.at("configmaps", "default"), []byte(configMap("b")),
			metav1.CreateOptions{}); wire.StatusOf(err).Reason != metav1.StatusReasonAlreadyExists {
			t.Errorf("create: %v", err)
		}
		if lost := s.Unreadable(); len(lost) != 1 || lost[0].Key.String() != "default/b" {
			t.Errorf("unreadable are %v", lost)
		}
		if err := s.Ready(); err != nil {
			t.Errorf("the registry is not ready: %v", err)
		}
	}
	check(s)
	// All else goes on.
	s.merge(at("a"), `{"data":{"a":"2"}}`)
	s.create(s.at("configmaps", "default"), configMap("c"))
	s.create(s.at("secrets", "default"), `{"metadata":{"name":"s"}}`)
	if got := secrets.take(1); got[0] != "ADDED default/s" {
		t.Errorf("the watch of secrets got %v", got)
	}
	stop()
	again, _ := sharing(t, log, registry.Config{})
	check(again)
	again.merge(at("a"), `{"data":{"a":"3"}}`)
}

func TestAResourceIsServedWhenItsValuesAreReplaced(t *testing.T) {
	for name, replace := range map[string]struct{ value, list string }{
		"rewritten": {inStore("b", "2"), "default/a default/b default/c"},
		"deleted":   {"", "default/a default/c"},
	} {
		for _, known := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				s, _ := sharing(t, openLog(t), registry.Config{})
				first := s.create(s.at("configmaps", "default"), configMap("a")).ResourceVersion()
				if known {
					s.store("configmaps/default/b", inStore("b", "1"))
				}
				open := s.watch(s.at("configmaps"), nil)
				s.store("configmaps/default/b", damaged)
				inside := s.create(s.at("configmaps", "default"), configMap("c")).ResourceVersion()
				whole := s.store("configmaps/default/b", replace.value)

				if got := strings.Join(names(s.list(s.at("configmaps", "default"), nil)), " "); got != replace.list {
					t.Errorf("there are %s, want %s", got, replace.list)
				}
				if len(s.Unreadable()) > 0 {
					t.Errorf("unreadable are %v", s.Unreadable())
				}
				_, err := open.Next(t.Context())
				for _, from := range []kube.ResourceVersion{first, inside, whole - 1} {
					_, watching := s.Watch(t.Context(), s.at("configmaps"), options(func(o *wire.ListOptions) {
						o.ResourceVersion = from.String()
					}))
					_, listing := s.List(t.Context(), s.at("configmaps"), options(func(o *wire.ListOptions) {
						o.ResourceVersion, o.Match = from.String(), wire.MatchExact
					}))
					for _, err := range []error{err, watching, listing} {
						if e := expired(err); e == nil || e.Reason != kube.ReasonUnreadable || e.Oldest != whole {
							t.Errorf("from %d: %v, want 410 up to %d", from, err, whole)
						}
					}
				}
				after := s.watch(s.at("configmaps"), func(o *wire.ListOptions) { o.ResourceVersion = whole.String() })
				s.merge(s.at("configmaps", "default", "c"), `{"data":{"a":"2"}}`)
				if got := after.take(1); got[0] != "MODIFIED default/c" {
					t.Errorf("a watch from then gets %v", got)
				}
			})
		}
	}
}

// TestAnUnreadableNamespaceIsLeftAsItIs: neither its content goes, nor is a start ended by one that always exists.
func TestAnUnreadableNamespaceIsLeftAsItIs(t *testing.T) {
	log := openLog(t)
	s, stop := sharing(t, log, registry.Config{})
	s.store("namespaces/default", damaged)
	_, err := s.Create(t.Context(), s.at("configmaps", "default"), []byte(configMap("a")), metav1.CreateOptions{})
	checkUnreadable(t, "create in it", err, `"namespaces/default"`)
	stop()
	again, _ := sharing(t, log, registry.Config{})
	again.create(again.at("configmaps", "kube-system"), configMap("a"))
}

// TestANamespaceIsNotFinishedWhileSomethingInItCannotBeRead: also what a definition that cannot be read has defined.
func TestANamespaceIsNotFinishedWhileSomethingInItCannotBeRead(t *testing.T) {
	for _, key := range []string{"secrets/n/lost", crdKey} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := sharing(t, openLog(t), registry.Config{})
				s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
				s.create(s.at("configmaps", "n"), configMap("a"))
				s.store(key, damaged)
				s.delete(s.at("namespaces", "", "n"))
				<-time.After(10 * time.Minute) // of the test's own time
				ns := s.get(s.at("namespaces", "", "n"))
				if text := string(ns.JSON()); !strings.Contains(text, "ContentDeletionFailed") || !strings.Contains(text, key) ||
					strings.Contains(text, "PRIVATE") {
					t.Errorf("the namespace says %s", text)
				}
				s.store(key, "")
				<-time.After(2 * time.Minute)
				if _, err := s.Get(t.Context(), s.at("namespaces", "", "n"), ""); wire.StatusOf(err).Code != http.StatusNotFound {
					t.Errorf("then the namespace is not finished: %v", err)
				}
			})
		})
	}
}

const crdKey = "customresourcedefinitions.apiextensions.k8s.io/foos.t.example.com"

func TestADefinitionThatCannotBeReadStaysInForce(t *testing.T) {
	log := openLog(t)
	s, stop := sharing(t, log, registry.Config{})
	good := s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("a", `{"n":1}`))
	for _, value := range []string{damaged, strings.Replace(string(good.Value()), `"group":`, `"other":`, 1)} {
		s.store(crdKey, value)
		s.merge(s.at(foos, "default", "a"), `{"spec":{"n":2}}`)
		_, err := s.List(t.Context(), s.at(crds), options(nil))
		checkUnreadable(t, "list definitions", err, crdKey)
	}
	stop()
	// After a start nothing is known of it.
	s, _ = sharing(t, log, registry.Config{})
	if _, served := s.live.Load().Lookup(kinds.GroupVersionResource{
		Group: "t.example.com", Version: "v1", Resource: "foos",
	}); served {
		t.Error("the resource of a definition that cannot be read is served")
	}
	s.store(crdKey, string(good.Value()))
	if got := names(s.list(s.at(foos, "default"), nil)); len(got) != 1 {
		t.Errorf("then there are %v", got)
	}
}

// sealed is a store whose secrets cannot be decrypted while it is closed.
type sealed struct {
	store.Store

	closed *atomic.Bool
}

var errSealed = errors.New("no matching key was found")

func (s sealed) seal(key string, revision int64, value []byte) ([]byte, *store.UnreadableError) {
	if value == nil || !s.closed.Load() || store.ResourceOf(key) != "secrets" {
		return value, nil
	}
	return nil, &store.UnreadableError{Key: key, Revision: revision, Encryption: "k8s:enc:aesgcm:v1:k:", Cause: errSealed}
}

func (s sealed) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.Read(ctx, q)
	for i := range page.Records {
		r := &page.Records[i]
		if r.Value, r.Unreadable = s.seal(r.Key, r.ModRevision, r.Value); r.Unreadable != nil && !q.Unreadable {
			return store.Page{}, r.Unreadable
		}
	}
	return page, err
}

func (s sealed) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	changes, err := s.Store.Changes(ctx, f)
	return sealedChanges{changes, s, f.Unreadable}, err
}

type sealedChanges struct {
	store.Changes

	store sealed
	all   bool
}

func (s sealedChanges) Next(ctx context.Context) (store.Batch, error) {
	batch, err := s.Changes.Next(ctx)
	for i := range batch.Changes {
		c := &batch.Changes[i]
		if c.Value, c.Unreadable = s.store.seal(c.Key, c.Revision, c.Value); c.Unreadable != nil && !s.all {
			return store.Batch{}, c.Unreadable
		}
		if c.Previous == nil {
			continue
		}
		previous := *c.Previous
		c.Previous = &previous
		previous.Value, previous.Unreadable = s.store.seal(c.Key, previous.ModRevision, previous.Value)
		if previous.Unreadable != nil && !s.all {
			return store.Batch{}, previous.Unreadable
		}
	}
	return batch, err
}

// TestAResourceIsServedWhenItsKeyIsThere: from before or after the start of the server.
func TestAResourceIsServedWhenItsKeyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t)
		var closed atomic.Bool
		s, stop := sharing(t, log, registry.Config{Store: sealed{log, &closed}})
		s.create(s.at("secrets", "default"), `{"metadata":{"name":"a"}}`)
		s.create(s.at("secrets", "default"), `{"metadata":{"name":"c"}}`)
		open := s.watch(s.at("secrets"), nil)
		open.take(3)
		serve := func(want ...string) {
			t.Helper()
			_, err := s.List(t.Context(), s.at("secrets"), options(nil))
			checkUnreadable(t, "list", err, `"secrets/default/b"`)
			closed.Store(false)
			<-time.After(time.Minute) // of the test's own time
			if got := names(s.list(s.at("secrets"), nil)); !slices.Equal(got, want) {
				t.Errorf("then there are %v, want %v", got, want)
			}
		}
		closed.Store(true)
		value := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b","namespace":"default","uid":"1"}}`
		s.store("secrets/default/b", value)
		last := s.store("secrets/default/c", "") // its last content cannot be read any more, but it is known
		serve("default/a", "default/b")
		if _, err := open.Next(t.Context()); expired(err) == nil || expired(err).Reason != kube.ReasonUnreadable {
			t.Errorf("the watch that was open got %v", err)
		}
		if _, err := s.Watch(t.Context(), s.at("secrets"), options(func(o *wire.ListOptions) {
			o.ResourceVersion = (last - 1).String()
		})); expired(err) == nil {
			t.Errorf("a watch from before got %v", err)
		}
		stop()
		closed.Store(true)
		s, _ = sharing(t, log, registry.Config{Store: sealed{log, &closed}})
		watch := func() *watcher { return s.watch(s.at("secrets"), nil) }
		if _, err := s.List(t.Context(), s.at("secrets"), options(nil)); err == nil {
			t.Error("secrets that cannot be decrypted are listed")
		}
		closed.Store(false)
		<-time.After(time.Minute)
		if got := watch().take(3); !slices.Equal(got, []string{"ADDED default/a", "ADDED default/b", "END"}) {
			t.Errorf("then a watch gets %v", got)
		}
	})
}

// policies follows the policies, and does nothing with them.
type policies struct{}

func (policies) Follows() []kinds.GroupResource {
	return []kinds.GroupResource{{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}}
}

func (policies) Replace(kinds.GroupResource, []*wire.Object)    {}
func (policies) Change(kinds.GroupResource, *wire.Object, bool) {}

// TestAWriteIsRefusedWhilePoliciesCannotBeRead: nobody knows whether they forbid it. The policies can be written.
func TestAWriteIsRefusedWhilePoliciesCannotBeRead(t *testing.T) {
	log := openLog(t)
	s, _ := sharing(t, log, registry.Config{
		Admission: &reviewer{validate: func(context.Context, admission.Attributes) error { return nil }},
		Followers: []registry.Follower{policies{}},
	})
	const key = "validatingadmissionpolicies.admissionregistration.k8s.io/p"
	s.store(key, damaged)
	_, err := s.Create(t.Context(), by(s.at("configmaps", "default")), []byte(configMap("a")), metav1.CreateOptions{})
	checkUnreadable(t, "create", err, key)
	webhooks := by(s.at("admissionregistration.k8s.io/v1/validatingwebhookconfigurations"))
	s.create(webhooks, `{"metadata":{"name":"w"}}`)
	s.store(key, "")
	s.create(by(s.at("configmaps", "default")), configMap("a"))
}

// committed is what was written to one key.
type committed struct {
	rv      kube.ResourceVersion
	event   kube.EventType
	damaged bool
}

// TestAWatchShowsEveryChangeOrAnErrorAroundValuesThatCannotBeRead writes at random; watches must show all writes
// after where they begin, and none after one that could not be read.
func TestAWatchShowsEveryChangeOrAnErrorAroundValuesThatCannotBeRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s, _ := sharing(t, openLog(t), registry.Config{})
	var all []committed
	write := func() {
		name := string(rune('a' + random.IntN(2)))
		key := "configmaps/default/" + name
		page, err := s.log.Read(t.Context(), store.Query{Start: key})
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		c := committed{event: kube.Modified}
		exists := len(page.Records) > 0
		value := inStore(name, strings.Repeat("x", random.IntN(9)))
		switch n := random.IntN(10); {
		case n < 2 && exists:
			value, c.event = "", kube.Deleted
			c.damaged = string(page.Records[0].Value) == damaged // nobody has seen what is deleted
		case n < 3:
			value, c.damaged = damaged, true
		case exists && string(page.Records[0].Value) == damaged:
			c.damaged = true // what it follows was not seen
		case !exists:
			c.event = kube.Added
		}
		c.rv = s.store(key, value)
		all = append(all, c)
	}
	type watching struct {
		*watcher
		from kube.ResourceVersion
	}
	var open []watching
	shown, cut := 0, 0
	for range 3000 {
		write()
		if random.IntN(3) == 0 {
			if list, err := s.List(t.Context(), s.at("configmaps"), options(nil)); err == nil {
				from := list.ResourceVersion
				if random.IntN(2) == 0 && len(all) > 5 {
					from = all[len(all)-5].rv
				}
				w, err := s.Watch(t.Context(), s.at("configmaps"), options(func(o *wire.ListOptions) {
					o.ResourceVersion = from.String()
				}))
				if err == nil {
					open = append(open, watching{&watcher{Watch: w, t: t}, from})
				} else if expired(err) == nil {
					t.Fatalf("watch: %v", err)
				}
			}
		}
		if len(open) == 0 || random.IntN(4) > 0 {
			continue
		}
		w := open[0]
		open = open[1:]
		i := slices.IndexFunc(all, func(c committed) bool { return c.rv > w.from })
		if position := w.Position(); i >= 0 {
			if lost := slices.IndexFunc(all[i:], func(c committed) bool { return c.damaged }); lost >= 0 &&
				position >= all[i+lost].rv {
				t.Fatalf("a watch from %d is at %d, after %v", w.from, position, all[i+lost])
			}
		}
		for i >= 0 && i < len(all) {
			events, err := w.Next(t.Context())
			if err != nil {
				if !slices.ContainsFunc(all[i:], func(c committed) bool { return c.damaged }) {
					t.Fatalf("a watch from %d ended with %v, and all could be read", w.from, err)
				}
				cut++
				break
			}
			for _, e := range events {
				if want := all[i]; want.damaged || e.ResourceVersion != want.rv || e.Type != want.event {
					t.Fatalf("a watch from %d shows %s at %d, want %v", w.from, e.Type, e.ResourceVersion, want)
				}
				i++
				shown++
			}
		}
		w.Close()
	}
	for _, w := range open {
		w.Close()
	}
	if shown < 100 || cut < 100 {
		t.Errorf("only %d changes were shown, and %d watches cut off", shown, cut)
	}
}
