package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shop is a directory with manifests of 16 objects.
const shop = "testdata/shop"

// exported exports a server to a new directory, and returns it.
func exported(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	if code, _, stderr := command(t, append([]string{"export", dir, "--kubeconfig", kubeconfig}, args...)...); code != exitOK {
		t.Fatalf("export: exit code %d:\n%s", code, stderr)
	}
	return dir
}

// tree reads all files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
	return files
}

func sortedKeys(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }

// TestExportOfAnExportIsEqual: from manifests over a server to files, and again, as a tree
// and as a stream.
func TestExportOfAnExportIsEqual(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	r, ready := serveInMemory(t, "--from", shop)
	if out := r.out.String(); !strings.Contains(out, "  objects  16 created, 0 updated, 0 unchanged, from 2 files\n") {
		t.Errorf("the output does not count the objects:\n%s", out)
	}
	first := exported(t, ready.Kubeconfig)
	_, stream, _ := command(t, "export", "--kubeconfig", ready.Kubeconfig)
	if code := r.end(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, r.err.String())
	}
	files := tree(t, first)
	for name, want := range map[string]string{
		"cluster/clusterroles.rbac.authorization.k8s.io/shop%3A%52eader.yaml":              "apiGroups:\n  - example.com",
		"cluster/clusterroles.rbac.authorization.k8s.io/shop%3Areader.yaml":                "aggregationRule:",
		"cluster/customresourcedefinitions.apiextensions.k8s.io/vouchers.example.com.yaml": "x-kubernetes-preserve-unknown-fields: true",
		"cluster/namespaces/shop.yaml": "apiVersion: v1\nkind: " +
			"Namespace\nmetadata:\n  labels:\n    team: sales\n  name: shop\n",
		"namespaces/shop/vouchers.example.com/summer.yaml": "code: \"1e3\"\n  percent: 15\n " +
			" stackable: false\n",
		"namespaces/shop/pods/web-1.yaml":   "nodeName: node-1",
		"namespaces/shop/services/web.yaml": "spec:\n  internalTrafficPolicy: Cluster", // and no cluster IP
		"namespaces/default/configmaps/plain.yaml": "apiVersion: v1\nkind: " +
			"ConfigMap\nmetadata:\n  name: plain\n  namespace: default\n",
		"namespaces/shop/deployments.apps/web.yaml": "replicas: 3",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not contain %q:\n%s", name, want, files[name])
		}
	}
	if len(files) != 16 {
		t.Errorf("%d files, want one for each object of the manifests: %v", len(files), files)
	}
	for name, text := range files {
		if regexp.MustCompile(`(?m)^status:|^  (uid|resourceVersion|creationTimestamp|generation|managedFields):`).MatchString(
			text) {
			t.Errorf("%s has a field of the server:\n%s", name, text)
		}
		if !strings.Contains(stream, "---\n"+text) {
			t.Errorf("the stream does not contain %s", name)
		}
	}

	streamed := filepath.Join(t.TempDir(), "stream.yaml")
	if err := os.WriteFile(streamed, []byte(stream), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, from := range []string{first, streamed} {
		_, ready := serveInMemory(t, "--from", from)
		again := tree(t, exported(t, ready.Kubeconfig))
		if len(again) != len(files) {
			t.Errorf("from %s: %d files, want %d", from, len(again), len(files))
		}
		for name, text := range files {
			if again[name] != text {
				t.Errorf("from %s: %s was\n%s\nand is\n%s", from, name, text, again[name])
			}
		}
		if _, same, _ := command(t, "export", "-", "--kubeconfig", ready.Kubeconfig); same != stream {
			t.Errorf("from %s: the stream differs", from)
		}
	}
}

func TestExportSelects(t *testing.T) {
	t.Parallel()
	_, ready := serveInMemory(t, "--from", shop)
	accounts := []string{"-n", "shop", "--resource", "sa", "--all"}
	for len(tree(t, exported(t, ready.Kubeconfig, accounts...))) < 2 { // the controller makes "default" after the start
		<-time.After(10 * time.Millisecond)
	}
	for name, c := range map[string]struct {
		args []string
		want string // the names of the files, sorted
	}{
		"namespace": {
			[]string{"-n", "shop", "--resource", "ns,configmaps"},
			"cluster/namespaces/shop.yaml namespaces/shop/configmaps/settings.yaml",
		},
		"selector": {[]string{"-l", "app=web"}, "namespaces/shop/deployments.apps/web.yaml namespaces/shop/pods/web-1.yaml"},
		"exclude":  {[]string{"-l", "app=web", "--exclude", "po"}, "namespaces/shop/deployments.apps/web.yaml"},
		"account":  {accounts, "namespaces/shop/serviceaccounts/default.yaml namespaces/shop/serviceaccounts/web.yaml"},
		"custom":   {[]string{"--resource", "voucher"}, "namespaces/shop/vouchers.example.com/summer.yaml"},
	} {
		files := tree(t, exported(t, ready.Kubeconfig, c.args...))
		if got := sortedKeys(files); strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
	withStatus := tree(t, exported(t, ready.Kubeconfig, "--resource", "nodes", "--status"))
	if text := withStatus["cluster/nodes/node-1.yaml"]; !strings.Contains(text, "status:") {
		t.Errorf("no status: %s", text)
	}
	dir := exported(t, ready.Kubeconfig, "--resource", "pods")
	code, _, stderr := command(t, "export", dir, "--kubeconfig", ready.Kubeconfig)
	if code != exitRunTime || !strings.Contains(stderr, "--force") {
		t.Errorf("into a full directory: exit code %d, want 1 and the way out:\n%s", code, stderr)
	}
	if code, _, stderr = command(t, "export", dir, "--force", "--resource", "secrets", "--kubeconfig",
		ready.Kubeconfig); code != exitOK {
		t.Errorf("with --force: exit code %d:\n%s", code, stderr)
	}
	if files := tree(t, dir); len(files) != 1 || files["namespaces/shop/secrets/db.yaml"] == "" {
		t.Errorf("--force leaves %v", sortedKeys(files))
	}
	if code, _, stderr = command(t, "export", "--resource", "podz", "--kubeconfig", ready.Kubeconfig); code != exitRunTime ||
		!strings.Contains(stderr, "did you mean") {
		t.Errorf("a resource that is not there: exit code %d:\n%s", code, stderr)
	}
}

func TestRestartWithTheSameManifestsWritesNothing(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	ready := filepath.Join(t.TempDir(), "ready.json")
	for _, want := range []string{"16 created, 0 updated, 0 unchanged", "0 created, 0 updated, 16 unchanged"} {
		r := begin(t, "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--ready-file", ready, "--from",
			filepath.Join(shop, "shop.yaml"), "--from", shop)
		eventually(t, "the ready file", func() bool {
			_, err := os.Stat(ready)
			return err == nil
		})
		if code := r.end(); code != exitOK || !strings.Contains(r.out.String(), want) {
			t.Errorf("exit code %d, and the output does not say %s:\n%s%s", code, want, r.out.String(), r.err.String())
		}
	}
}

func TestBadManifestsEndTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, " +
		"namespace: none}\ndota: {}\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	ready := filepath.Join(dir, "ready.json")
	code, out, stderr := command(t, "serve", "--memory", "--listen", "127.0.0.1:0", "--from", bad, "--ready-file", ready)
	if code != exitRunTime || out != "" ||
		!strings.Contains(stderr, bad+`:5: document 2: ConfigMap none/b: there is no namespace "none"`) {
		t.Errorf("exit code %d, want 1 and the problem:\n%s%s", code, out, stderr)
	}
	if _, err := os.Stat(ready); err == nil {
		t.Error("the ready file was written")
	}
	data := filepath.Join(dir, "data")
	code, _, stderr = command(t, "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--from", filepath.Join(dir, "nowhere"))
	if code != exitRunTime || !strings.Contains(stderr, "there is no file or directory "+filepath.Join(dir, "nowhere")) {
		t.Errorf("exit code %d, want 1 and the path:\n%s", code, stderr)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("a start without its manifests created the data directory")
	}
}

// TestSeedingDocShowsItsOutput runs the commands of docs/seeding.md in a shell, in which
// gapless is this program, and looks for the output that the page shows behind # →.
func TestSeedingDocShowsItsOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	page, err := os.ReadFile("../../docs/seeding.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(string(page))
	if script == nil {
		t.Fatal("docs/seeding.md shows no commands")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell here")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(shop)); err != nil {
		t.Fatalf("copy the directory: %v", err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	if err := os.Symlink(own, filepath.Join(dir, "gapless")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), shell, "-euc", script[1])
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	shown := regexp.MustCompile(`(?m)# → (.*)$`).FindAllStringSubmatch(script[1], -1)
	if len(shown) < 3 {
		t.Errorf("docs/seeding.md shows the output of %d commands", len(shown))
	}
	for _, line := range shown {
		if want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line[1])), "…",
			".*"); !regexp.MustCompile(want).Match(out) {
			t.Errorf("the commands do not print %q:\n%s", line[1], out)
		}
	}
}

// TestLongListsAreExportedInOrder: more than one page, in the order of the text
// "namespace/name", which is that of etcd too.
func TestLongListsAreExportedInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	var text strings.Builder
	var want []string
	for _, namespace := range []string{"a-b", "a", "a0"} {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", namespace)
		for i := range 400 {
			name := fmt.Sprintf("c%03d", i)
			want = append(want, namespace+"/"+name)
			fmt.Fprintf(&text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: %s}\n---\n", namespace, name)
		}
	}
	file := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	_, ready := serveInMemory(t, "--from", file)
	code, out, stderr := command(t, "export", "--resource", "configmaps", "--kubeconfig", ready.Kubeconfig)
	if code != exitOK || !strings.Contains(stderr, "exported 1200 objects") {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^  name: (.*)\n  namespace: (.*)$`).FindAllStringSubmatch(out, -1) {
		got = append(got, m[2]+"/"+m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d objects, want %d, or they are in another order: %.100q", len(got), len(want), got)
	}
}
