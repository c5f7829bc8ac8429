package registry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// TestEveryVerbConverts writes and reads in both versions.
func TestEveryVerbConverts(t *testing.T) {
	s, _ := serveBars(t)
	shows(t, s.create(s.at(barsV2, "default"), bar("v2", "a", `{"count":"1"}`)), `t.example.com/v2 {"count":"1"}`)
	shows(t, s.get(s.at(bars, "default", "a")), `t.example.com/v1 {"n":1}`)
	shows(t, s.create(s.at(bars, "default"), bar("v1", "b", `{"n":2}`)), `t.example.com/v1 {"n":2}`)
	shows(t, s.get(s.at(barsV2, "default", "b")), `t.example.com/v2 {"count":"2"}`)
	shows(t, s.merge(s.at(barsV2, "default", "b"), `{"spec":{"count":"3"}}`), `t.example.com/v2 {"count":"3"}`)
	o := s.get(s.at(barsV2, "default", "b"))
	shows(t, s.update(s.at(barsV2, "default", "b"), strings.Replace(string(o.JSON()), `"count":"3"`, `"count":"4"`, 1)),
		`t.example.com/v2 {"count":"4"}`)
	shows(t, s.get(s.at(bars, "default", "b")), `t.example.com/v1 {"n":4}`)
	if labels := s.get(s.at(bars, "default", "b")).Labels(); len(labels) != 0 {
		t.Errorf("v1 has the labels %v of v2", labels)
	}
	status := s.merge(s.at(barsV2, "default", "b", "status"), `{"status":{"n":7}}`)
	if n := field(t, status, "status", "n"); n != 7.0 {
		t.Errorf("status.n is %v", n)
	}
	scaled, err := s.Patch(t.Context(), s.at(bars, "default", "b", "scale"), mergePatch(`{"spec":{"replicas":5}}`),
		metav1.PatchOptions{})
	if err != nil || field(t, scaled.Object, "spec", "replicas") != 5.0 {
		t.Errorf("scale: %v %v", scaled.Object, err)
	}
	shows(t, s.get(s.at(barsV2, "default", "b")), `t.example.com/v2 {"count":"5"}`)
	for _, o := range items(s.list(s.at(barsV2, "default"), nil)) {
		if o.APIVersion() != "t.example.com/v2" {
			t.Errorf("the list has %s", o.JSON())
		}
	}
	s.delete(s.at(barsV2, "default", "a"))
	all, err := s.DeleteCollection(t.Context(), s.at(barsV2, "default"), metav1.DeleteOptions{}, options(nil))
	if err != nil {
		t.Fatalf("delete the collection: %v", err)
	}
	shows(t, items(all)[0], `t.example.com/v2 {"count":"5"}`)
}

// TestAWriteOfTheSameContentInAnotherVersionWritesNothing: the round trip is no change.
func TestAWriteOfTheSameContentInAnotherVersionWritesNothing(t *testing.T) {
	s, _ := serveBars(t)
	was := s.create(s.at(barsV2, "default"), bar("v2", "a", `{"count":"1"}`))
	is := s.update(s.at(barsV2, "default", "a"), string(was.JSON()))
	if is.ResourceVersion() != was.ResourceVersion() {
		t.Errorf("it was written: %v after %v", is.ResourceVersion(), was.ResourceVersion())
	}
}

// TestApplyMergesWhatIsManagedInAnotherVersion: the managers of v1 own what they have set
// under the name that it has in v1, also when v2 is applied.
func TestApplyMergesWhatIsManagedInAnotherVersion(t *testing.T) {
	s, _ := serveBars(t)
	apply := func(at, body, manager string) (wire.Written, error) {
		return s.Patch(t.Context(), s.at(at, "default", "a"), wire.Patch{Type: types.ApplyYAMLPatchType, Body: []byte(body)},
			metav1.PatchOptions{FieldManager: manager})
	}
	if _, err := apply(bars, bar("v1", "a", `{"n":1}`), "one"); err != nil {
		t.Fatalf("apply: %v", err)
	}
	_, err := apply(barsV2, bar("v2", "a", `{"count":"2"}`), "two")
	if got := wire.StatusOf(err); got.Code != http.StatusConflict || !strings.Contains(got.Message, ".spec.n") {
		t.Errorf("a conflicting configuration: %v", got)
	}
	out, err := apply(barsV2, bar("v2", "a", `{"a":"x"}`), "two")
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	shows(t, out.Object, `t.example.com/v2 {"a":"x","count":"1"}`)
	if out, err = apply(barsV2, bar("v2", "a", `{}`), "one"); err != nil {
		t.Fatalf("apply: %v", err)
	}
	shows(t, out.Object, `t.example.com/v2 {"a":"x"}`)
}

// TestAnApplyFailsWhereAVersionOfAManagerLacksAField: what is managed in another version is compared in
// that version, from which nothing is pruned, and which has to have a type for all of it.
func TestAnApplyFailsWhereAVersionOfAManagerLacksAField(t *testing.T) {
	s := serve(t)
	version := func(name string, storage bool, more string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"schema":{"openAPIV3Schema":%s}}`,
			name, storage, schemaOf(more, ""))
	}
	s.create(s.at(crds), definedAs(version("v1", true, newDefault)+","+version("v1beta1", false, "")))
	apply := func(version, spec string) error {
		body := strings.Replace(foo("a", spec), "/v1", "/"+version, 1)
		_, err := s.Patch(t.Context(), s.at("t.example.com/"+version+"/foos", "default", "a"),
			wire.Patch{Type: types.ApplyYAMLPatchType, Body: []byte(body)}, metav1.PatchOptions{FieldManager: version})
		return err
	}
	if err := apply("v1beta1", `{"a":"1"}`); err != nil {
		t.Fatalf("apply: %v", err)
	}
	if got := wire.StatusOf(apply("v1", `{"a":"1"}`)); got.Code != http.StatusInternalServerError ||
		!strings.Contains(got.Message, ".spec.new: field not declared in schema") {
		t.Errorf("an apply in a version with a default that the other one lacks: %v", got)
	}
	if err := apply("v1beta1", `{"a":"2"}`); err != nil {
		t.Errorf("an apply in the only version that is managed: %v", err)
	}
}

// TestAListIsConvertedInOneReview counts reviews, and then no more: the conversions are kept.
func TestAListIsConvertedInOneReview(t *testing.T) {
	s, h := serveBars(t)
	for i := range 20 {
		s.create(s.at(bars, "default"), bar("v1", fmt.Sprintf("b-%02d", i), `{"n":1}`))
	}
	if n := h.reviews.Load(); n != 0 {
		t.Errorf("%d reviews of objects in the storage version", n)
	}
	for range 2 {
		if n := len(items(s.list(s.at(barsV2), nil))); n != 20 {
			t.Errorf("%d objects", n)
		}
		if n := h.reviews.Load(); n != 1 {
			t.Errorf("%d reviews", n)
		}
	}
	page := s.list(s.at(barsV2), func(o *wire.ListOptions) { o.Limit = 7 })
	if n := len(items(page)); n != 7 || page.Continue == "" || *page.Remaining != 13 {
		t.Errorf("a page has %d objects, %v remain", n, page.Remaining)
	}
}

// TestSelectorsSeeTheVersionOfTheRequest: labels and fields that only the converted objects
// have.
func TestSelectorsSeeTheVersionOfTheRequest(t *testing.T) {
	s, _ := serveBars(t)
	for i := range 4 {
		s.create(s.at(bars, "default"), bar("v1", fmt.Sprintf("b%d", i), fmt.Sprintf(`{"n":%d}`, i%2)))
	}
	byLabel := func(o *wire.ListOptions) { o.Labels = labels.SelectorFromSet(labels.Set{"shown": "1"}) }
	byField := func(o *wire.ListOptions) { o.Fields = fields.OneTermEqualSelector("spec.count", "1") }
	for _, by := range []func(*wire.ListOptions){byLabel, byField} {
		if diff := cmp.Diff([]string{"default/b1", "default/b3"}, names(s.list(s.at(barsV2), by))); diff != "" {
			t.Error(diff)
		}
		w := s.watch(s.at(barsV2), by)
		if diff := cmp.Diff([]string{"ADDED default/b1", "ADDED default/b3", "END"}, w.take(3)); diff != "" {
			t.Error(diff)
		}
		s.merge(s.at(bars, "default", "b1"), `{"spec":{"a":"x"}}`) // stays
		s.merge(s.at(bars, "default", "b0"), `{"spec":{"n":1}}`)   // comes
		s.merge(s.at(bars, "default", "b2"), `{"spec":{"a":"y"}}`) // is not seen
		s.merge(s.at(bars, "default", "b0"), `{"spec":{"n":0}}`)   // goes
		s.delete(s.at(bars, "default", "b1"))
		got := w.take(3)
		e := w.next()
		if diff := cmp.Diff([]string{"MODIFIED default/b1", "ADDED default/b0", "DELETED default/b0"}, got); diff != "" {
			t.Error(diff)
		}
		if e.Type != kube.Deleted || e.Object.ResourceVersion() != e.ResourceVersion {
			t.Errorf("%v %s at %v", e.Type, e.Object.JSON(), e.ResourceVersion)
		}
		shows(t, e.Object, `t.example.com/v2 {"a":"x","count":"1"}`)
		s.create(s.at(bars, "default"), bar("v1", "b1", `{"n":1}`))
	}
}

// TestAChangeIsConvertedOnceForAllWatches has many watches of a version.
func TestAChangeIsConvertedOnceForAllWatches(t *testing.T) {
	s, h := serveBars(t)
	was := s.create(s.at(bars, "default"), bar("v1", "a", `{"n":1}`))
	var all []*watcher
	for range 20 {
		all = append(all, s.watch(s.at(barsV2), since(was)))
	}
	s.merge(s.at(bars, "default", "a"), `{"spec":{"n":2}}`)
	var first *wire.Object
	for _, w := range all {
		e := w.next()
		shows(t, e.Object, `t.example.com/v2 {"count":"2"}`)
		if first == nil {
			first = e.Object
		} else if first != e.Object {
			t.Error("a watch has bytes of its own")
		}
	}
	if n := h.objects.Load(); n != 1 {
		t.Errorf("%d objects were converted, want 1", n)
	}
}

// TestAWatchEndsAtAConversionThatFails: everything before is delivered, nothing is skipped,
// and the watch that resumes gets the rest.
func TestAWatchEndsAtAConversionThatFails(t *testing.T) {
	s, h := serveBars(t)
	was := s.create(s.at(bars, "default"), bar("v1", "a", `{"n":0}`))
	h.instead(func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if strings.Contains(string(body), `"n":3`) {
			_, _ = fmt.Fprintf(w,
				`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%q,`+
					`"result":{"status":"Failed","message":"three is bad"}}}`,
				uidOf(body))
			return
		}
		h.convert(w, body)
	})
	for i := 1; i <= 5; i++ {
		s.merge(s.at(bars, "default", "a"), fmt.Sprintf(`{"spec":{"n":%d}}`, i))
	}
	w := s.watch(s.at(barsV2), since(was))
	shows(t, w.next().Object, `t.example.com/v2 {"count":"1"}`)
	last := w.next()
	shows(t, last.Object, `t.example.com/v2 {"count":"2"}`)
	if at := w.Position(); at != last.ResourceVersion {
		t.Errorf("the position is %v, after %v", at, last.ResourceVersion)
	}
	_, err := w.Next(t.Context())
	if got, want := status(err), "500  conversion webhook for t.example.com/v1, Kind=Bar failed: three is bad"; got != want {
		t.Errorf("the watch ends with %q, want %q", got, want)
	}
	h.instead(nil)
	again := s.watch(s.at(barsV2), since(last.Object))
	for i := 3; i <= 5; i++ {
		shows(t, again.next().Object, fmt.Sprintf(`t.example.com/v2 {"count":"%d"}`, i))
	}
}

// TestASlowWebhookDelaysNobodyElse holds a review open: reads, writes and watches in the
// storage version go on, also of the same object, and so does the watch's own position.
func TestASlowWebhookDelaysNobodyElse(t *testing.T) {
	s, h := serveBars(t)
	was := s.create(s.at(bars, "default"), bar("v1", "a", `{"n":1}`))
	held, release := make(chan struct{}, 100), make(chan struct{})
	h.instead(func(w http.ResponseWriter, _ *http.Request, body []byte) {
		held <- struct{}{}
		<-release
		h.convert(w, body)
	})
	slow := s.watch(s.at(barsV2), since(was))
	quick := s.watch(s.at(bars), since(was))
	changed := s.merge(s.at(bars, "default", "a"), `{"spec":{"n":2}}`)
	interrupted, cancel := context.WithCancel(t.Context())
	go func() { <-held; cancel() }() // ends with the first review
	if _, err := slow.Next(interrupted); err == nil {
		t.Error("it was converted")
	}
	if at := slow.Position(); at >= changed.ResourceVersion() {
		t.Errorf("the position %v has passed the event %v, which was not delivered", at, changed.ResourceVersion())
	}
	written := make(chan error, 1)
	go func() { // ends when the webhook answers
		_, err := s.Patch(context.WithoutCancel(t.Context()), s.at(barsV2, "default", "a"), mergePatch(`{"spec":{"a":"z"}}`),
			metav1.PatchOptions{})
		written <- err
	}()
	for i := 3; i < 10; i++ {
		s.merge(s.at(bars, "default", "a"), fmt.Sprintf(`{"spec":{"n":%d}}`, i))
	}
	quick.take(8)
	if err := s.Ready(); err != nil {
		t.Errorf("wait until it is ready: %v", err)
	}
	s.create(s.at("namespaces"), `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)
	close(release)
	shows(t, slow.next().Object, `t.example.com/v2 {"count":"2"}`)
	if err := <-written; err != nil {
		t.Errorf("the slow writer: %v", err)
	}
	shows(t, s.get(s.at(bars, "default", "a")), `t.example.com/v1 {"a":"z","n":9}`)
}

// TestAWebhookCanReadAndWriteHere calls back into the server before it answers.
func TestAWebhookCanReadAndWriteHere(t *testing.T) {
	s, h := serveBars(t)
	was := s.create(s.at(bars, "default"), bar("v1", "a", `{"n":1}`))
	h.instead(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if _, err := s.Get(r.Context(), s.at(bars, "default", "a"), ""); err != nil {
			t.Errorf("get: %v", err)
		}
		s.merge(s.at(bars, "default", "a"), fmt.Sprintf(`{"spec":{"a":"%d"}}`, h.reviews.Load())) //nolint:contextcheck // it has the test's
		h.convert(w, body)
	})
	shows(t, s.get(s.at(barsV2, "default", "a")), `t.example.com/v2 {"count":"1"}`)
	h.instead(nil)
	shows(t, s.watch(s.at(barsV2), since(was)).next().Object, `t.example.com/v2 {"a":"1","count":"1"}`)
}

// TestServicesAreFoundByTheirObjects has the webhook behind a service with an external name.
func TestServicesAreFoundByTheirObjects(t *testing.T) {
	h, s := newWebhook(t), serve(t)
	at, err := url.Parse(h.URL)
	if err != nil {
		t.Fatalf("parse an address: %v", err)
	}
	s.create(s.at(crds),
		barDefinition(`{"service":{"namespace":"default","name":"hook","path":"/convert","port":`+at.Port()+`},"caBundle":`+h.ca()+`}`))
	s.create(s.at(bars, "default"), bar("v1", "a", `{"n":1}`))
	get := func() string {
		_, err := s.Get(t.Context(), s.at(barsV2, "default", "a"), "")
		return status(err)
	}
	if got := get(); !strings.Contains(got, `service "hook" not found`) {
		t.Error(got)
	}
	s.create(s.at("services", "default"),
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"hook"},"spec":{"clusterIP":"None","ports":[{"port":`+at.Port()+`}]}}`)
	if got := get(); !strings.Contains(got, "no endpoints available") {
		t.Error(got)
	}
	s.delete(s.at("services", "default", "hook"))
	s.create(s.at("services", "default"),
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"hook"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	// The certificate is for example.com, and not for the service: it is the one that answers.
	if got := get(); !strings.Contains(got, "not hook.default.svc") {
		t.Error(got)
	}
}

// TestMetadataIsServedWithoutTheWebhook: deletion, finalizers and namespaces.
func TestMetadataIsServedWithoutTheWebhook(t *testing.T) {
	s, h := serveBars(t)
	s.create(s.at("namespaces"), `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)
	s.create(s.at(bars, "x"), bar("v1", "a", `{"n":1}`))
	s.create(s.at(bars, "default"), bar("v1", "b", `{"n":1}`))
	h.Close()
	s.delete(s.at("namespaces", "", "x"))
	w := s.watch(s.at("namespaces"), func(o *wire.ListOptions) { o.Fields = fields.OneTermEqualSelector("metadata.name", "x") })
	for e := w.next(); e.Type != kube.Deleted && e.Type != kube.InitialEventsEnd; {
		e = w.next()
	}
	out, err := s.Delete(t.Context(), s.at(barsV2, "default", "b"), metav1.DeleteOptions{})
	if err != nil || out.Status == nil {
		t.Errorf("delete in v2: %v", err)
	}
}

// TestAWebhookThatHangsIsGivenUp needs the whole limit.
func TestAWebhookThatHangsIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 30 s")
	}
	s, h := serveBars(t)
	s.create(s.at(bars, "default"), bar("v1", "a", `{"n":1}`))
	h.instead(func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() })
	began := time.Now()
	_, err := s.Get(t.Context(), s.at(barsV2, "default", "a"), "")
	if got := status(err); !strings.Contains(got, "/convert?timeout=30s\": context deadline exceeded") {
		t.Errorf("after %v: %s", time.Since(began), got)
	}
}
