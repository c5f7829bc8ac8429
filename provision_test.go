package gapless_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

func TestANamespaceIsMadeWithItsFirstObject(t *testing.T) {
	s := launch(t, gapless.Config{Memory: true, EnableAdmissionPlugins: []string{"NamespaceAutoProvision"}})
	client := s.web(t)
	const maps = "/api/v1/namespaces/new/configmaps"
	if code, body := s.exchange(t, client, "POST "+maps+"?dryRun=All", `{"metadata":{"name":"a"}}`); code != 404 {
		t.Errorf("a dry run: %d %s", code, body)
	}
	for _, name := range []string{"a", "b"} {
		if code, body := s.exchange(t, client, "POST "+maps, `{"metadata":{"name":"`+name+`"}}`); code != 201 {
			t.Errorf("create %s: %d %s", name, code, body)
		}
	}
	code, body := s.exchange(t, client, "GET /api/v1/namespaces/new", "")
	if code != 200 || !strings.Contains(body, `"phase":"Active"`) || !strings.Contains(body, `"manager":"kube-apiserver"`) {
		t.Errorf("the namespace: %d %s", code, body)
	}
	if code, body := s.exchange(t, client, "POST /api/v1/namespaces/Not-A-Name/configmaps",
		`{"metadata":{"name":"a"}}`); code != 403 {
		t.Errorf("a namespace that cannot be: %d %s", code, body)
	}

	without := launch(t, gapless.Config{Memory: true})
	if code, body := without.exchange(t, without.web(t), "POST "+maps, `{"metadata":{"name":"a"}}`); code != 404 {
		t.Errorf("without the plugin: %d %s", code, body)
	}
}
