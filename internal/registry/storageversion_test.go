package registry_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// versions is the merge patch that gives foos.t.example.com these versions, each
// "v1", with "+" served and with "*" the storage version.
func versions(marked ...string) string {
	var all []string
	for _, v := range marked {
		name := strings.TrimRight(v, "+*")
		all = append(all,
			`{"name":"`+name+`","served":`+strconv.FormatBool(strings.Contains(v, "+"))+`,"storage":`+
				strconv.FormatBool(strings.Contains(v, "*"))+
				`,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`)
	}
	return `{"spec":{"versions":[` + strings.Join(all, ",") + `]}}`
}

// since makes a watch begin after an object's version.
func since(o *wire.Object) func(*wire.ListOptions) {
	return func(l *wire.ListOptions) { l.ResourceVersion = o.ResourceVersion().String() }
}

// TestStorageVersionOfADefinitionCanBeMigrated plays the whole of a migration, with
// objects and watches, and a restart after each step: the storage version becomes
// v2, objects are written again, v1 leaves status.storedVersions and then spec.
func TestStorageVersionOfADefinitionCanBeMigrated(t *testing.T) {
	const v2 = "t.example.com/v2/foos"
	log := openLog(t)
	s, stop := serveOn(t, log, nil)
	restart := func() {
		t.Helper()
		stop()
		s, stop = serveOn(t, log, nil)
	}
	stored := func(want ...any) {
		t.Helper()
		d := s.get(s.at(crds, "", "foos.t.example.com"))
		if diff := cmp.Diff(want, field(t, d, "status", "storedVersions")); diff != "" {
			t.Errorf("stored versions (-want +got):\n%s", diff)
		}
	}
	refused := func(subresource, patch, why string) {
		t.Helper()
		_, err := s.Patch(t.Context(), s.at(crds, "", "foos.t.example.com", subresource), mergePatch(patch),
			metav1.PatchOptions{})
		if got := wire.StatusOf(err); got.Code != 422 || !strings.Contains(got.Message, why) {
			t.Errorf("patch %s: %v, want 422 with %q", patch, err, why)
		}
	}
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("a", `{"n":1}`))
	last := s.create(s.at(foos, "default"), foo("b", `{"n":1}`))
	at := func() kinds.Target { return s.at(crds, "", "foos.t.example.com") }

	s.merge(at(), versions("v1+*", "v2+"))
	stored("v1")
	old, next := s.watch(s.at(foos), since(last)), s.watch(s.at(v2), since(last))
	was := s.get(at())
	if moved := s.merge(at(), versions("v1+", "v2+*")); moved.Generation() != was.Generation()+1 {
		t.Errorf("the move of the storage version made generation %d of %d", moved.Generation(), was.Generation())
	}
	stored("v1", "v2")
	// Every object is written again as it is: that stores it in v2.
	for _, name := range []string{"a", "b"} {
		o := s.get(s.at(v2, "default", name))
		if is := s.update(s.at(v2, "default", name), string(o.JSON())); is.ResourceVersion() == o.ResourceVersion() {
			t.Errorf("%s was not stored again", name)
		}
	}
	for _, w := range []*watcher{old, next} {
		if diff := cmp.Diff([]string{"MODIFIED default/a", "MODIFIED default/b"}, w.take(2)); diff != "" {
			t.Error(diff)
		}
	}
	refused("", versions("v2+*"), "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
	restart()
	stored("v1", "v2")

	s.merge(s.at(crds, "", "foos.t.example.com", "status"), `{"status":{"storedVersions":["v2"]}}`)
	stored("v2")
	restart()
	old, next = s.watch(s.at(foos), since(last)), s.watch(s.at(v2), since(last))
	old.take(2)
	next.take(2)
	s.merge(at(), versions("v2+*"))
	stored("v2")
	if _, err := old.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the watch of the version that is gone: %v", err)
	}
	s.merge(s.at(v2, "default", "a"), `{"spec":{"n":2}}`)
	if diff := cmp.Diff([]string{"MODIFIED default/a"}, next.take(1)); diff != "" {
		t.Error(diff)
	}
	restart()
	for _, o := range items(s.list(s.at(v2), nil)) {
		if o.APIVersion() != "t.example.com/v2" {
			t.Errorf("listed %s", o.JSON())
		}
	}
	if diff := cmp.Diff([]string{"default/a", "default/b"}, names(s.list(s.at(v2), nil))); diff != "" {
		t.Error(diff)
	}
	again := s.watch(s.at(v2), since(last))
	if diff := cmp.Diff([]string{"MODIFIED default/a", "MODIFIED default/b", "MODIFIED default/a"}, again.take(3)); diff != "" {
		t.Error(diff)
	}
}
