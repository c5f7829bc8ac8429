package processtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest/processtest"
)

// maps is the path of the ConfigMaps of the namespace default.
const maps = "/api/v1/namespaces/default/configmaps"

// caller sends requests as one user.
type caller struct {
	t    *testing.T
	host string
	http *http.Client
}

func as(t *testing.T, c *rest.Config) caller {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return caller{t, c.Host, client}
}

// send sends a request and returns the code and the body of the answer. A connection that a
// restart has ended is not used again: it asks again.
func (c caller) send(method, path, body string) (int, []byte) {
	c.t.Helper()
	for attempt := 0; ; attempt++ {
		req, err := http.NewRequestWithContext(c.t.Context(), method, c.host+path, strings.NewReader(body))
		if err != nil {
			c.t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.http.Do(req)
		if err != nil && attempt == 0 {
			c.http.CloseIdleConnections()
			continue
		}
		if err != nil {
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
		text, err := io.ReadAll(resp.Body)
		if err := resp.Body.Close(); err != nil {
			c.t.Errorf("close body: %v", err)
		}
		if err != nil {
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
		return resp.StatusCode, text
	}
}

// create creates a ConfigMap and returns its resourceVersion.
func (c caller) create(name string) string {
	c.t.Helper()
	code, text := c.send(http.MethodPost, maps,
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name))
	if code != http.StatusCreated {
		c.t.Fatalf("create %s: %d %s", name, code, text)
	}
	return version(c.t, text)
}

// has reports whether there is a ConfigMap.
func (c caller) has(name string) bool {
	c.t.Helper()
	code, text := c.send(http.MethodGet, maps+"/"+name, "")
	if code != http.StatusOK && code != http.StatusNotFound {
		c.t.Fatalf("get %s: %d %s", name, code, text)
	}
	return code == http.StatusOK
}

// watch opens a watch of the ConfigMaps and returns its first line, or that of its answer.
func (c caller) watch(path, rv string) (line string, end func()) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.host+path+"?watch=true&resourceVersion="+rv, nil)
	if err != nil {
		c.t.Fatalf("make a request: %v", err)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // end closes it
	if err != nil {
		c.t.Fatalf("do http: %v", err)
	}
	line, err = bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil && line == "" {
		line = err.Error()
	}
	return line, func() { _ = resp.Body.Close() }
}

func version(t *testing.T, text []byte) string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return object.ResourceVersion
}

// until polls, for what another process does.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(time.Minute)
	for !holds() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("waited a minute in vain: %s", what)
		}
	}
}

// left returns what there still is of a server.
func left(t *testing.T, kubeconfig, url string) string {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(kubeconfig))
	if _, err := os.Stat(dir); err == nil {
		return "the directory " + dir
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
	if err == nil {
		_ = conn.Close()
		return "the port of " + url
	}
	return ""
}

func TestServerServesUsersAndManifestsAndLeavesNothing(t *testing.T) {
	var kubeconfig, url string
	t.Run("server", func(t *testing.T) {
		s := processtest.New(t, processtest.Manifests("testdata/crds"),
			processtest.Flags("--data-dir", "/no/such/dir", "--authorization-mode", "MastersOnly"))
		kubeconfig, url = s.Kubeconfig(), s.URL()
		admin := as(t, s.RESTConfig())
		admin.create("a")
		s.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop}
`)
		if code, text := admin.send(http.MethodGet, "/apis/example.com/v1/namespaces/shop/widgets/w", ""); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		if code, text := as(t, s.User(t, "jane", "readers")).send(http.MethodGet, "/api/v1/secrets",
			""); code != http.StatusForbidden || !bytes.Contains(text, []byte("jane")) {
			t.Errorf("jane lists secrets: %d %s", code, text)
		}
		text, err := os.ReadFile(kubeconfig)
		if err != nil || !bytes.Contains(text, []byte(url)) {
			t.Errorf("the kubeconfig does not name %s: %v", url, err)
		}
	})
	if what := left(t, kubeconfig, url); what != "" {
		t.Error("left: ", what)
	}
}

func TestCrashesAndRestartsKeepWhatWasAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	s := processtest.New(t)
	url := s.URL()
	admin := as(t, s.RESTConfig())
	for i, again := range []func(testing.TB){s.Crash, s.Restart} {
		name := fmt.Sprint("o", i)
		admin.create(name)
		again(t)
		if !admin.has(name) || s.URL() != url {
			t.Errorf("after restart %d: %s has no %s", i, s.URL(), name)
		}
	}
}

func TestRestartsWithOtherDataGoBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	s := processtest.New(t)
	admin := as(t, s.RESTConfig())
	admin.create("a")
	s.Keep(t)
	later := admin.create("b")
	s.RestartWith(t, processtest.OlderStore)
	if !admin.has("a") || admin.has("b") {
		t.Errorf("older: a %t, b %t", admin.has("a"), admin.has("b"))
	}
	if again := admin.create("c"); again != later {
		t.Errorf("the resource version after the restart is %s, want the same as before, %s", again, later)
	}
	s.RestartWith(t, processtest.OlderStore) // what was kept is still there
	if !admin.has("a") || admin.has("c") {
		t.Errorf("older, again: a %t, c %t", admin.has("a"), admin.has("c"))
	}
	s.RestartWith(t, processtest.WipedStore)
	if admin.has("a") {
		t.Error("wiped, and there is a")
	}
	admin.create("d")
	s.Reset(t) // to the empty server
	if admin.has("d") {
		t.Error("reset, and there is d")
	}
}

func TestResetGoesBackToWhatWasKeptAlsoAfterACrash(t *testing.T) {
	t.Parallel()
	s := processtest.New(t)
	admin := as(t, s.RESTConfig())
	admin.create("a")
	s.Keep(t)
	for _, before := range []func(testing.TB){func(testing.TB) {}, s.Crash} {
		rv := admin.create("b")
		s.Inject(t, "too-many-requests,verbs=list")
		if code, text := admin.send(http.MethodDelete, maps+"/a", ""); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		before(t)
		s.Reset(t)
		if !admin.has("a") || admin.has("b") {
			t.Errorf("a %t, b %t", admin.has("a"), admin.has("b"))
		}
		if all := s.Faults(t); len(all) != 0 {
			t.Errorf("there are faults: %v", all)
		}
		line, end := admin.watch(maps, rv) // what was reset is a change as any
		if !strings.Contains(line, `"DELETED"`) {
			t.Errorf("a watch sees %s", line)
		}
		end()
	}
}

func TestCompactExpiresEveryOlderVersionAlsoAfterARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	s := processtest.New(t)
	admin := as(t, s.RESTConfig())
	_, text := admin.send(http.MethodGet, "/api/v1/limitranges", "")
	quiet := version(t, text) // nobody ever writes one
	admin.create("a")
	rv := s.Compact(t).String()
	for range 2 {
		for _, path := range []string{maps, "/api/v1/limitranges"} {
			line, end := admin.watch(path, quiet)
			if !strings.Contains(line, "too old resource version") {
				t.Errorf("a watch of %s from %s: %s", path, quiet, line)
			}
			end()
		}
		admin.create("after-" + rv)
		line, end := admin.watch(maps, rv)
		if !strings.Contains(line, `"ADDED"`) {
			t.Errorf("a watch from %s: %s", rv, line)
		}
		end()
		admin.send(http.MethodDelete, maps+"/after-"+rv, "")
		s.Restart(t)
		admin.http.CloseIdleConnections()
	}
}

func TestCompactHistoryExpiresOnlyWatchesThatWouldMissSomething(t *testing.T) {
	t.Parallel()
	s := processtest.New(t)
	admin := as(t, s.RESTConfig())
	_, text := admin.send(http.MethodGet, maps, "")
	first := version(t, text)
	admin.create("a")
	_, text = admin.send(http.MethodGet, maps, "")
	if got, want := s.CompactHistory(t).String(), version(t, text); got != want {
		t.Errorf("history is gone up to %s, want %s, which is everything", got, want)
	}
	line, end := admin.watch(maps, first)
	end()
	if !strings.Contains(line, `"ADDED"`) {
		t.Errorf("a watch that would miss nothing: %s", line)
	}
	admin.send(http.MethodDelete, maps+"/a", "")
	s.CompactHistory(t)
	line, end = admin.watch(maps, first)
	end()
	if !strings.Contains(line, "too old resource version") {
		t.Errorf("a watch that would miss a deletion: %s", line)
	}
}

func TestFaultsStayAndGoOnCountingOverACrash(t *testing.T) {
	t.Parallel()
	s := processtest.New(t)
	admin := as(t, s.RESTConfig())
	list := func() int {
		code, _ := admin.send(http.MethodGet, maps, "")
		return code
	}
	s.Inject(t, "too-many-requests,name=first,verbs=list,resources=configmaps,count=2", "cut,name=other,verbs=patch,count=1")
	if code := list(); code != http.StatusTooManyRequests {
		t.Errorf("the first list: %d", code)
	}
	s.Crash(t)
	if code := list(); code != http.StatusTooManyRequests {
		t.Errorf("after the crash: %d", code)
	}
	if code := list(); code != http.StatusOK {
		t.Errorf("the third list: %d", code)
	}
	if all := s.Faults(t); len(all) != 2 || all[0].Name != "first" || all[0].Acted != 2 || all[0].Matched != 3 ||
		all[1].Action != "cut" {
		t.Errorf("%+v", all)
	}
	s.RemoveFault(t, "first")
	s.Restart(t)
	if all := s.Faults(t); len(all) != 1 || all[0].Name != "other" {
		t.Errorf("%+v", all)
	}
	s.ClearFaults(t)
	s.Restart(t)
	if all := s.Faults(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestOpenWatchesAreListed(t *testing.T) {
	t.Parallel()
	s := processtest.New(t)
	admin := as(t, s.RESTConfig())
	rv := admin.create("a")
	created := admin.create("b")
	_, end := admin.watch(maps, rv)
	defer end()
	until(t, "the watch is listed", func() bool { return len(s.Watches(t)) == 1 })
	w := s.Watches(t)[0]
	if w.Resource != "configmaps" || w.Namespace != "default" || w.From.String() != rv || w.Known.String() != created ||
		w.Delivered != 1 || w.Since.IsZero() {
		t.Errorf("%+v", w)
	}
}

// whatToKill is the variable by which TestNothingIsLeftWhenTheTestIsKilled asks for a test that
// is to be killed.
const whatToKill = "PROCESS_TEST_WAITS_TO_BE_KILLED"

func TestNothingIsLeftWhenTheTestIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv(whatToKill) != "" {
		s := processtest.New(t)
		_, _ = fmt.Fprintln(os.Stdout, "server", s.Kubeconfig(), s.URL())
		<-t.Context().Done() // never
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), whatToKill+"=yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	var kubeconfig, url string
	lines := bufio.NewScanner(out)
	for kubeconfig == "" && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "server %s %s", &kubeconfig, &url)
	}
	if kubeconfig == "" || left(t, kubeconfig, url) == "" {
		t.Fatalf("there is no server: %q", kubeconfig)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("kill process: %v", err)
	}
	_ = cmd.Wait() // it was killed
	until(t, "nothing is left", func() bool { return left(t, kubeconfig, url) == "" })
}

func TestProgramThatIsNotThereIsNamed(t *testing.T) {
	failed := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }() // as the end of a test
		processtest.New(failed, processtest.Program("/no/such/program"))
	}()
	if !strings.Contains(failed.said, "/no/such/program") {
		t.Errorf("it says %q", failed.said)
	}
	failed = &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		processtest.New(failed, processtest.Flags("--no-such-flag"))
	}()
	if !strings.Contains(failed.said, "unknown flag: --no-such-flag") {
		t.Errorf("it says %q", failed.said)
	}
}

// recorder is a test that keeps why it ends.
type recorder struct {
	testing.TB
	said string
}

// Fatalf implements testing.TB.
func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	panic(r.said)
}
