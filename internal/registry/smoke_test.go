package registry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

func TestSmoke(t *testing.T) {
	s := serve(t)
	t.Log(names(s.list(s.at("namespaces"), nil)))
	o := s.create(s.at("configmaps", "default"), configMap("a"))
	t.Logf("%s", o.JSON())
	t.Logf("%s", s.get(s.at("namespaces", "", "default")).JSON())
	w := s.watch(s.at("configmaps", "default"), nil)
	if diff := cmp.Diff([]string{"ADDED default/a", "END"}, w.take(2)); diff != "" {
		t.Error(diff)
	}
	s.merge(s.at("configmaps", "default", "a"), `{"data":{"a":"2"}}`)
	t.Log(w.take(1))
	d := s.create(s.at(crds), definition(""))
	t.Logf("%s", d.JSON())
	f := s.create(s.at(foos, "default"), foo("x", `{"a":"1"}`))
	t.Logf("%s", f.JSON())
	t.Logf("%s", s.get(s.at(foos, "default", "x", "scale")).JSON())
	wf := s.watch(s.at(foos, "default"), nil)
	t.Log(wf.take(2))
	out := s.delete(s.at(crds, "", "foos.t.example.com"))
	t.Logf("%s", out.Object.JSON())
	t.Log(wf.take(1))
	_, err := wf.Next(t.Context())
	t.Log(err)
	_ = metav1.Status{}
	_ = kube.Key{}
}
