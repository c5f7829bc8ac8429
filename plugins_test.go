package gapless_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

func TestPluginsAreOnByDefaultAndCanBeOff(t *testing.T) {
	const pods = "/api/v1/namespaces/default/pods"
	const pod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","imagePullPolicy":"Never"}]}}`
	for name, c := range map[string]struct {
		cfg       gapless.Config
		has, none []string
	}{
		"default": {gapless.Config{}, []string{`"tolerationSeconds":300`, `"priority":0`, `"imagePullPolicy":"Never"`}, nil},
		"less": {
			gapless.Config{DisableAdmissionPlugins: []string{"DefaultTolerationSeconds"}},
			[]string{`"priority":0`},
			[]string{"tolerationSeconds"},
		},
		"more": {
			gapless.Config{EnableAdmissionPlugins: []string{"AlwaysPullImages"}}, []string{`"imagePullPolicy":"Always"`}, nil,
		},
		"seconds": {
			gapless.Config{DefaultNotReadyTolerationSeconds: new(int64(7)), DefaultUnreachableTolerationSeconds: new(int64(0))},
			[]string{`"tolerationSeconds":7`, `"tolerationSeconds":0`},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Memory, c.cfg.Bootstrap = true, gapless.BootstrapCluster // pods need accounts
			s := launch(t, c.cfg)
			client := s.web(t)
			code, body := s.exchange(t, client, "POST "+pods, pod)
			if code != 201 {
				t.Fatalf("create a pod: %d %s", code, body)
			}
			for _, part := range c.has {
				if !strings.Contains(body, part) {
					t.Errorf("%s is not in %s", part, body)
				}
			}
			for _, part := range c.none {
				if strings.Contains(body, part) {
					t.Errorf("%s is in %s", part, body)
				}
			}
		})
	}
}

func TestAWrongAdmissionConfigurationEndsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"+
		"plugins: [{name: Priority, configuration: {a: b}}]"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	got := startError(t, gapless.Config{Memory: true, AdmissionControlConfigFile: file})
	if !strings.Contains(got, "the plugin Priority takes none") {
		t.Errorf("error %s, want one that names the plugin", got)
	}
}
