package protection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// podObject returns a pod of the namespace n as the registry has it.
func podObject(t testing.TB, name, uid, rest string) *wire.Object {
	t.Helper()
	resource, _ := kinds.NewLive(builtin.Catalog()).Load().Storage(pods)
	o, err := wire.NewObject(fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"n","uid":%q},%s}`, name, uid, rest),
		5, resource.Fields)
	if err != nil {
		t.Fatalf("make a pod: %v", err)
	}
	return o
}

// TestAPodThatReplacesAnotherOneCountsForItself: between two states that a replica has seen the pod was deleted and made
// again.
func TestAPodThatReplacesAnotherOneCountsForItself(t *testing.T) {
	u := newUsers()
	of := func(claims ...string) string {
		volumes := []string{}
		for n, claim := range claims {
			volumes = append(volumes, fmt.Sprintf(`{"name":"v%d","persistentVolumeClaim":{"claimName":%q}}`, n, claim))
		}
		return `"spec":{"nodeName":"node","volumes":[` + strings.Join(volumes, ",") + `]}`
	}
	holds := func(want ...string) {
		t.Helper()
		var got []string
		for key, uses := range u.claims {
			if uses.holds("") {
				got = append(got, key.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the claims %q are used, want %q", got, want)
		}
	}
	first, second := podObject(t, "p", "1", of("a", "b")), podObject(t, "p", "2", of("b", "c"))
	third := podObject(t, "p", "3", of())
	u.change(nil, first)
	holds("a", "b")
	touched := u.change(first, second)
	holds("b", "c")
	for _, name := range []string{"a", "b", "c"} {
		if !slices.Contains(touched, wire.Key{Namespace: "n", Name: name}) {
			t.Errorf("of the claims only %v may have changed, want %s too", touched, name)
		}
	}
	u.change(second, third)
	holds()
	u.change(third, first)
	u.change(first, nil)
	if holds(); len(u.pods)+len(u.claims) != 0 {
		t.Errorf("%d pods and %d claims are left, want none", len(u.pods), len(u.claims))
	}
}

// FuzzUsesOfPods compares what is read of a pod with what Go's types say.
func FuzzUsesOfPods(f *testing.F) {
	for _, text := range []string{
		`"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}},{"name":"e","ephemeral":{}}]}`,
		`"spec":{"nodeName":"n","volumes":[{"name":"v","persistentVolumeClaim":null}]},"status":{"phase":"Failed"}`,
		`"metadata":{"name":"p","namespace":"n","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z",` +
			`"deletionGracePeriodSeconds":0},"spec":{"volumes":[{"name":"e","ephemeral":{}}]},` +
			`"status":{"containerStatuses":[{"state":{"running":{}}}],"initContainerStatuses":[{"state":{"waiting":{}}}]}`,
		`"spec":[]`,
	} {
		f.Add(`{"apiVersion":"v1","kind":"Pod",` + text + `}`)
	}
	resource, _ := kinds.NewLive(builtin.Catalog()).Load().Storage(pods)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := wire.NewObject([]byte(text), 5, resource.Fields)
		if err != nil {
			return
		}
		got := podOf(o)
		var p corev1.Pod
		if json.Unmarshal([]byte(text), &p) != nil || strings.Contains(text, `\`) { // escapes are not stored
			return
		}
		var named, ephemeral []string
		for _, v := range p.Spec.Volumes {
			switch {
			case v.PersistentVolumeClaim != nil:
				named = append(named, v.PersistentVolumeClaim.ClaimName)
			case v.Ephemeral != nil:
				ephemeral = append(ephemeral, o.Key().Name+"-"+v.Name)
			}
		}
		if named, ephemeral = distinct(named), distinct(ephemeral); len(named)+len(ephemeral) == 0 {
			if got != nil {
				t.Errorf("%s has the claims %q and %q, want none", text, got.named, got.ephemeral)
			}
			return
		}
		if got == nil || !slices.Equal(got.named, named) || !slices.Equal(got.ephemeral, ephemeral) {
			t.Errorf("%s has %+v, want the claims %q and %q", text, got, named, ephemeral)
		}
	})
}
