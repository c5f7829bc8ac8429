package plugins_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/admission/plugins"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names(of ...string) (all []plugins.Plugin) {
	for _, name := range of {
		all = append(all, plugins.Plugin{Name: name})
	}
	return all
}

func TestPluginsAreChosenAsUpstream(t *testing.T) {
	all := names("DenyServiceExternalIPs", "AlwaysPullImages", "Priority", "LimitRanger")
	for _, c := range []struct{ enable, disable, want, err string }{
		{want: "LimitRanger Priority"},
		{enable: "AlwaysPullImages DenyServiceExternalIPs", want: "LimitRanger AlwaysPullImages Priority DenyServiceExternalIPs"},
		{enable: "Priority ValidatingAdmissionWebhook", disable: "LimitRanger", want: "Priority"},
		{disable: "Priority LimitRanger ServiceAccount"},
		{enable: "Priorities", err: `enable-admission-plugins plugin "Priorities" is unknown`},
		{disable: "Priorities", err: `disable-admission-plugins plugin "Priorities" is unknown`},
		{enable: "ImagePolicyWebhook", err: "no plugin ImagePolicyWebhook; it has LimitRanger, AlwaysPullImages"},
		{enable: "Priority", disable: "Priority", err: "[Priority] in enable-admission-plugins and disable-admission-plugins"},
		{disable: "NamespaceLifecycle", err: "always asks NamespaceLifecycle"},
	} {
		chosen, err := plugins.Chosen(all, strings.Fields(c.enable), strings.Fields(c.disable))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: error %v", c, err)
			}
			continue
		}
		if got := plugins.Names(chosen); err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func TestSettingsAreThoseOfTheFile(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "beside.yaml"), []byte("of: beside"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, c := range []struct{ text, plugin, want, err string }{
		{text: head + "- {name: PodSecurity, configuration: {a: b}}", plugin: "PodSecurity", want: `{"a":"b"}`},
		{text: head + "- {name: EventRateLimit, path: beside.yaml}", plugin: "EventRateLimit", want: "of: beside"},
		{
			text:   head + "- {name: EventRateLimit, path: " + filepath.Join(dir, "beside.yaml") + "}",
			plugin: "EventRateLimit", want: "of: beside",
		},
		{text: head + "- {name: EventRateLimit}", plugin: "EventRateLimit"},
		{text: "podNodeSelectorPluginConfig: {x: y}", plugin: "PodNodeSelector", want: "podNodeSelectorPluginConfig: {x: y}"},
		{text: head + "- {name: EventRateLimit, path: none}", err: "plugins[0] (EventRateLimit): open"},
		{text: head + "- {name: Events}", err: "plugins[0] (Events): there is no such plugin"},
		{text: head + "- {name: PodSecurity}\n- {name: PodSecurity}", err: "plugins[1] (PodSecurity): it stands there twice"},
		{text: head + "- {name: PodSecurity, paht: a}", err: `unknown field "plugins[0].paht"`},
		{text: "a: b", err: "want an AdmissionConfiguration of apiserver.config.k8s.io/v1"},
		{text: "apiVersion: v1\nkind: Pod", err: `no kind "Pod" is registered`},
		{text: "{", err: "config.yaml: "},
	} {
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		s, err := plugins.ReadSettings(file)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: error %v, want one that names the file and says %q", c.text, err, c.err)
			}
			continue
		}
		if err != nil || string(s[c.plugin]) != c.want {
			t.Errorf("%s: %q, %v", c.text, s[c.plugin], err)
		}
	}
}

func TestSettingsThatNobodyTakesAreRefused(t *testing.T) {
	takers, asked := []string{"PodSecurity", "EventRateLimit", "MutatingAdmissionWebhook"}, names("PodSecurity")
	for name, want := range map[string]string{
		"PodSecurity": "", "MutatingAdmissionWebhook": "", "EventRateLimit": "EventRateLimit is not enabled",
		"Priority": "Priority takes none in this server",
	} {
		err := plugins.Settings{name: []byte("{}")}.Unused(takers, asked)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}
