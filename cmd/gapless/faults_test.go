package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// file writes a file for a command.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return path
}

// version asks a server for its version and returns the code of the answer.
func version(t *testing.T, kubeconfig string) int {
	t.Helper()
	return answered(t, kubeconfig, "/version")
}

// answered returns the code of the answer to a get; 0 if there is none.
func answered(t *testing.T, kubeconfig, path string) int {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	defer web.CloseIdleConnections()
	c, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a discovery client for config and client: %v", err)
	}
	err = c.RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return 200
	case errors.As(err, &status):
		return int(status.Status().Code)
	}
	return 0
}

// caller writes a kubeconfig with the server of another one and a token, or no credentials.
func caller(t *testing.T, kubeconfig, token string) string {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatalf("load the file: %v", err)
	}
	for name := range cfg.AuthInfos {
		cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatalf("write to file: %v", err)
	}
	return path
}

func TestFaultsAreAddedListedAndRemovedByCommands(t *testing.T) {
	r, ready := serveInMemory(t, "--enable-faults", "--faults-seed", "7")
	if out := r.out.String(); !strings.Contains(out, "--faults-seed 7\n") || !strings.Contains(r.err.String(), "faults_seed=7") {
		t.Errorf("the seed is not shown: %s%s", out, r.err.String())
	}
	kubeconfig := "--kubeconfig=" + ready.Kubeconfig
	yaml := file(t, "rules.yaml",
		"- {name: slow, action: delay, with: {for: 1ms}}\n- action: conflict\n  match: {verbs: [update], nth: 3}\n")
	text := file(t, "rules.json",
		`{"name":"down","action":"unavailable","count":1,"match":{"userAgents":["*"],"verbs":["get"],"probability":1}}`)
	code, out, err := command(t, "fault", "add", "gone,verbs=watch,resources=pods|deployments.apps,as=http", "-f", yaml, "-f",
		text, kubeconfig)
	if want := "added gone-1\nadded slow\nadded conflict-1\nadded down\n"; code != 0 || out != want {
		t.Fatalf("add: %d %q %s", code, out, err)
	}
	if got := version(t, ready.Kubeconfig); got != 503 {
		t.Errorf("the first request: %d", got)
	}
	if got := version(t, ready.Kubeconfig); got != 200 {
		t.Errorf("the second one: %d", got)
	}
	code, out, err = command(t, "fault", "list", kubeconfig)
	if down := regexp.MustCompile(`(?m)^down +2 +1 +{"name":"down",.*}$`); code != 0 || !down.MatchString(out) ||
		strings.Count(out, "\n") != 5 {
		t.Errorf("list: %d\n%s%s", code, out, err)
	}
	if code, out, err = command(t, "fault", "list", "-o", "json", kubeconfig); code != 0 ||
		!strings.Contains(out, `"matched": 2,`) {
		t.Errorf("list as JSON: %d\n%s%s", code, out, err)
	}
	if code, out, err = command(t, "fault", "remove", "slow", "down", kubeconfig); code != 0 ||
		out != "removed slow\nremoved down\n" {
		t.Errorf("remove: %d %q %s", code, out, err)
	}
	if code, _, err = command(t, "fault", "remove", "slow", kubeconfig); code != 1 || !strings.Contains(err, `"slow" not found`) {
		t.Errorf("remove again: %d %s", code, err)
	}
	if code, out, err = command(t, "fault", "clear", kubeconfig); code != 0 || out != "" {
		t.Errorf("clear: %d %q %s", code, out, err)
	}
	if code, out, _ = command(t, "fault", "list", kubeconfig); code != 0 || strings.Count(out, "\n") != 1 {
		t.Errorf("list after clear: %d\n%s", code, out)
	}
	if code := r.end(); code != 0 {
		t.Errorf("serve: %d\n%s", code, r.err.String())
	}
}

func TestWrongFaultsAreRefusedWithTheReason(t *testing.T) {
	_, ready := serveInMemory(t, "--enable-faults")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"add"}, 2, "give a rule, or a file with rules (-f)"},
		{[]string{"add", "vanish"}, 2, `there is no action "vanish"; the actions are gone, `},
		{[]string{"add", "gone,shape=http"}, 2, "/shape: there is no such field"},
		{[]string{"add", "duplicate,verbs=create"}, 2, `can do nothing to "create", only to watch: remove the verb`},
		{[]string{"add", "-f", file(t, "rules.yaml", "action: gone\nmatch: {nth: 1, every: 2}\n")}, 2, "set one of them"},
		{[]string{"add", "-f", file(t, "rules.json", `{"action":"gone","cuont":1}`)}, 2, "/0/cuont: there is no such field"},
		{[]string{"add", "-f", file(t, "half.json", `{"action":`)}, 2, "half.json"},
		{[]string{"add", "-f", missing}, 1, missing},
		{[]string{"add", "-f", "-"}, 2, "standard input"},
		{[]string{"add", "restart,store=wiped,count=1"}, 1, "nobody can restart this server with other data"},
		{[]string{"add", "gone,name=a", "cut,name=a"}, 1, "there is a rule with this name"},
		{[]string{"list", "-o", "yaml"}, 2, "want json, or nothing for a table"},
		{[]string{"list", "now"}, 2, "now"},
		{[]string{"remove"}, 2, "at least 1 arg"},
		{[]string{"remove", ""}, 1, "the name of the rule is empty"},
		{[]string{"drop"}, 2, "drop"},
	} {
		args := append([]string{"fault"}, c.args...)
		if c.args[0] != "drop" {
			args = append(args, "--kubeconfig="+ready.Kubeconfig)
		}
		if code, out, err := command(t, args...); code != c.code || out != "" || !strings.Contains(err, c.want) {
			t.Errorf("%q: %d %q %s; want %d, %q", c.args, code, out, err, c.code, c.want)
		}
	}
	if code, out, err := command(t, "fault", "list", "--kubeconfig="+ready.Kubeconfig); code != 0 ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("a rule was added: %d\n%s%s", code, out, err)
	}
	if code, _, err := command(t, "serve", "--memory", "--faults-seed", "5"); code != 2 ||
		!strings.Contains(err, "--enable-faults") {
		t.Errorf("a seed without faults: %d %s", code, err)
	}
}

func TestOnlyAdministratorsChangeFaults(t *testing.T) {
	tokens := file(t, "tokens.csv", "t0ken-of-jane,jane,1,developers\nt0ken-of-root,root,2,system:masters\n")
	_, ready := serveInMemory(t, "--enable-faults", "--token-auth-file", tokens)
	for token, want := range map[string]string{"": "forbidden", "guess": "nauthorized", "t0ken-of-jane": "forbidden"} {
		kubeconfig := "--kubeconfig=" + caller(t, ready.Kubeconfig, token)
		for _, args := range [][]string{{"list"}, {"add", "gone"}, {"remove", "x"}, {"clear"}} {
			args = append(append([]string{"fault"}, args...), kubeconfig)
			if code, out, err := command(t, args...); code != 1 || out != "" ||
				!strings.Contains(err, want) && !strings.Contains(err, "nauthorized") {
				t.Errorf("token %q: %q: %d %q %s", token, args, code, out, err)
			}
		}
	}
	if code, out, err := command(t, "fault", "add", "gone",
		"--kubeconfig="+caller(t, ready.Kubeconfig, "t0ken-of-root")); code != 0 {
		t.Errorf("an administrator: %d %s%s", code, out, err)
	}
}

func TestServerWithoutFaultsSaysHowToStartOne(t *testing.T) {
	_, ready := serveInMemory(t)
	if code, _, err := command(t, "fault", "list", "--kubeconfig="+ready.Kubeconfig); code != 1 ||
		!strings.Contains(err, "gapless serve --enable-faults, gapless proxy") {
		t.Errorf("%d %s", code, err)
	}
}

// proxied starts gapless proxy and returns the path of its kubeconfig.
func proxied(t *testing.T, args ...string) (r *running, kubeconfig string) {
	t.Helper()
	r = begin(t, append([]string{"proxy", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "proxy")}, args...)...)
	at := regexp.MustCompile(`export KUBECONFIG=(.*)\n`)
	eventually(t, "the proxy listens: "+strings.Join(args, " "), func() bool { return at.MatchString(r.out.String()) })
	return r, at.FindStringSubmatch(r.out.String())[1]
}

func TestProxyIsRunByACommand(t *testing.T) {
	tokens := file(t, "tokens.csv", "t0ken-of-jane,jane,1,developers\n")
	_, ready := serveInMemory(t, "--token-auth-file", tokens)
	r, kubeconfig := proxied(t, "--kubeconfig", ready.Kubeconfig, "--faults-seed", "9",
		"--rules", file(t, "rules.yaml", "action: unavailable\nmatch: {verbs: [get]}\ncount: 1\n"),
		"--rules", file(t, "rules.json", `[{"action":"gone","match":{"verbs":["watch"]}}]`),
		"--rule", "unauthorized,verbs=get,count=1")
	if out := r.out.String(); !strings.Contains(out, "with 3 rules and --faults-seed 9\n") {
		t.Error(out)
	}
	for _, want := range []int{401, 503, 200} {
		if got := version(t, kubeconfig); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	if code, out, err := command(t, "fault", "list", "--kubeconfig", kubeconfig); code != 0 ||
		!strings.Contains(out, "unavailable-1") {
		t.Errorf("list: %d\n%s%s", code, out, err)
	}
	if code, _, err := command(t, "fault", "add", "store-write,fail=after", "--kubeconfig", kubeconfig); code != 1 ||
		!strings.Contains(err, "in another process") {
		t.Errorf("a rule for its store: %d %s", code, err)
	}
	if code, _, err := command(t, "fault", "list", "--kubeconfig", caller(t, kubeconfig, "t0ken-of-jane")); code != 1 ||
		!strings.Contains(err, "nauthorized") {
		t.Errorf("without its certificate: %d %s", code, err)
	}
	if code := r.end(); code != 0 {
		t.Errorf("the proxy ends with %d: %s", code, r.err.String())
	}
	ca := file(t, "ca.crt", string(certificateOf(t, ready.Kubeconfig)))
	_, kubeconfig = proxied(t, "--upstream", ready.URL, "--certificate-authority", ca)
	if got := answered(t, caller(t, kubeconfig, "t0ken-of-jane"), "/api/v1/nodes"); got != 403 {
		t.Errorf("with a token that is passed on: %d", got)
	}
	if got := answered(t, caller(t, kubeconfig, "guess"), "/api/v1/nodes"); got != 401 {
		t.Errorf("with another token: %d", got)
	}
}

func certificateOf(t *testing.T, kubeconfig string) []byte {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	return cfg.CAData
}

func TestProxyRefusesAWrongCommandLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "give one of --upstream and --kubeconfig"},
		{[]string{"--upstream", "https://127.0.0.1:1", "--kubeconfig", missing}, 2, "give one of"},
		{[]string{"--upstream", "127.0.0.1:1"}, 2, "want a URL like"},
		{[]string{"--kubeconfig", missing}, 1, missing},
		{[]string{"--upstream", "https://127.0.0.1:1", "--certificate-authority", missing}, 1, "--certificate-authority"},
		{[]string{"--upstream", "https://127.0.0.1:1", "--rule", "vanish"}, 2, "there is no action"},
		{[]string{"--upstream", "https://127.0.0.1:1", "--rule", "store-write,fail=after"}, 2, "in another process"},
		{[]string{"--upstream", "https://127.0.0.1:1", "--rules", missing}, 1, missing},
		{
			[]string{"--upstream", "https://127.0.0.1:1", "--rules", file(t, "r.yaml", "action: gone\naction: cut\n")},
			2,
			"already set",
		},
		{[]string{"--upstream", "https://127.0.0.1:1", "--listen", "0.0.0.0:0"}, 2, "--allow-remote"},
		{[]string{"--upstream", "https://127.0.0.1:1", "--context", "other"}, 2, "--context names one of --kubeconfig"},
		{[]string{"--kubeconfig", "none", "--certificate-authority", file(t, "ca.crt", "")}, 2, "a kubeconfig names its own"},
	} {
		args := append([]string{"proxy", "--dir", filepath.Join(t.TempDir(), "proxy")}, c.args...)
		r := begin(t, args...)
		if code := <-r.code; code != c.code || !strings.Contains(r.err.String(), c.want) {
			t.Errorf("%q: %d %s; want %d, %q", c.args, code, r.err.String(), c.code, c.want)
		}
	}
}
