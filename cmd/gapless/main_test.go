package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asProgram is an environment variable that makes the test binary the program, so
// that no test has to build it.
const asProgram = "GAPLESS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	flag.Parse()
	if testing.Short() {
		// Most of these tests wait for time to pass, and only few run at once by default.
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// process is the program as a process of its own; its temporary files go to temporary.
func process(t *testing.T, temporary string, args ...string) *exec.Cmd {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), own, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temporary)
	return cmd
}

// text is what a command printed so far.
type text struct {
	mu sync.Mutex
	// mu guards b.
	b bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// running is a running command.
type running struct {
	out, err text
	stop     context.CancelFunc
	code     chan int
}

// begin starts a command, and ends it with the test.
func begin(t *testing.T, args ...string) *running {
	t.Helper()
	return beginReading(t, strings.NewReader(""), args...)
}

// beginReading is begin with a standard input.
func beginReading(t *testing.T, in io.Reader, args ...string) *running {
	t.Helper()
	if args == nil {
		args = []string{} // cobra takes those of the test's process for nil
	}
	r := &running{code: make(chan int, 1)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = stop
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		r.code <- run(ctx, args, streams{in: in, out: &r.out, err: &r.err})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return r
}

// end interrupts the command and returns its exit code.
func (r *running) end() int {
	r.stop()
	return <-r.code
}

// command runs a command that ends by itself.
func command(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	r := begin(t, args...)
	code = <-r.code
	return code, r.out.String(), r.err.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited 30 s in vain: %s", what)
		}
	}
}

type readiness struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	PID        int    `json:"pid"`
}

// serveInMemory starts `gapless serve --memory`, with more arguments.
func serveInMemory(t *testing.T, args ...string) (*running, readiness) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	r := begin(t, append([]string{"serve", "--memory", "--listen", "127.0.0.1:0", "--ready-file", file}, args...)...)
	var ready readiness
	eventually(t, "the ready file", func() bool {
		raw, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(raw, &ready) == nil
	})
	return r, ready
}

func TestServePrintsItsAddressAndKubeconfig(t *testing.T) {
	r, ready := serveInMemory(t)
	if ready.PID != os.Getpid() || !strings.HasPrefix(ready.URL, "https://127.0.0.1:") {
		t.Errorf("the ready file says %+v", ready)
	}
	if _, err := os.Stat(ready.Kubeconfig); err != nil {
		t.Errorf("the kubeconfig of the ready file: %v", err)
	}
	out := r.out.String()
	for _, want := range []string{ready.URL, "export KUBECONFIG=" + ready.Kubeconfig, "24h", "256Mi", "memory"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not say %q:\n%s", want, out)
		}
	}
	if code := r.end(); code != exitOK {
		t.Errorf("exit code %d after an interrupt, want 0:\n%s", code, r.err.String())
	}
}

func TestServeOnAUsedPortSuggestsAnother(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() {
		if err := taken.Close(); err != nil {
			t.Errorf("close taken: %v", err)
		}
	})
	address := taken.Addr().String()
	code, _, stderr := command(t, "serve", "--memory", "--listen", address)
	if code != exitRunTime || !strings.Contains(stderr, address) || !strings.Contains(stderr, "127.0.0.1:0") {
		t.Errorf("exit code %d, want 1, with the address and a way out:\n%s", code, stderr)
	}
}

func TestServeRefusesAForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("…"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	code, _, stderr := command(t, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0")
	if code != exitRunTime || !strings.Contains(stderr, "thesis.tex") {
		t.Errorf("exit code %d, want 1, with what is in the directory:\n%s", code, stderr)
	}
}

func TestAWrongTracingConfigurationStopsAStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	const text = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: -1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	code, _, stderr := command(t, "serve", "--memory", "--listen", "127.0.0.1:0", "--tracing-config-file", file)
	if code != exitRunTime || !strings.Contains(stderr, file) || !strings.Contains(stderr, "samplingRatePerMillion") {
		t.Errorf("exit code %d, want 1, with the file and the field:\n%s", code, stderr)
	}
}

func TestUnwritableReadyFileStopsAStartBeforeItCreatesFiles(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "new", "data")
	for _, file := range []string{filepath.Join(root, "nowhere", "ready.json"), root} {
		code, _, stderr := command(t, "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--ready-file", file)
		if code != exitRunTime || !strings.Contains(stderr, "--ready-file") {
			t.Errorf("%s: exit code %d, want 1, with the flag:\n%s", file, code, stderr)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", file, left, err)
		}
	}
	// which the start makes
	for _, file := range []string{filepath.Join(data, "ready.json"), filepath.Join(root, "new", "ready.json")} {
		if err := os.RemoveAll(filepath.Join(root, "new")); err != nil {
			t.Fatalf("remove a directory: %v", err)
		}
		r := begin(t, "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--ready-file", file)
		eventually(t, "the ready file", func() bool {
			_, err := os.Stat(file)
			return err == nil
		})
		if code := r.end(); code != exitOK {
			t.Errorf("%s: exit code %d:\n%s", file, code, r.err.String())
		}
	}
}

func TestInvalidCommandLinesExitWith2AndAHint(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"typo":             {[]string{"sreve"}, "did you mean serve?"},
		"unknown command":  {[]string{"fly"}, `unknown command "fly"`},
		"unknown flag":     {[]string{"serve", "--lisen", "x"}, "--lisen"},
		"bad duration":     {[]string{"serve", "--history", "soon"}, "--history"},
		"negative history": {[]string{"serve", "--history", "-1s"}, "cannot be negative"},
		"negative event TTL": {
			[]string{"serve", "--event-ttl", "-1h"}, "--event-ttl -1h0m0s: cannot be negative; 0 means forever",
		},
		"short event TTL": {[]string{"serve", "--memory", "--event-ttl", "999ms"}, "(--event-ttl): want at least 1s"},
		"bad bytes":       {[]string{"serve", "--history-bytes", "many"}, "512Mi"},
		"too few bytes": {
			[]string{"serve", "--history-bytes", "1k"}, "--history-bytes 1k: want at least 8Mi, or 0 for no limit",
		},
		"bad key algorithm": {
			[]string{"serve", "--client-key-algorithm", "dsa"},
			`--client-key-algorithm "dsa" is no algorithm of keys here: want ecdsa or rsa`,
		},
		"bad bootstrap": {[]string{"serve", "--bootstrap", "all"}, "cluster, server or none"},
		"bad log level": {[]string{"serve", "--log-level", "loud"}, "debug, info, warn or error"},
		"bad address":   {[]string{"serve", "--memory", "--listen", "here"}, "127.0.0.1:6443"},
		"serve with argument": {
			[]string{"serve", "now", "or", "never"}, `gapless serve takes no arguments, but got "now or never"`,
		},
		"compact what": {[]string{"compact"}, "--older-than"},
		"compact both": {[]string{"compact", "--older-than", "1s", "--to", "5"}, "one of"},
		"compact with words": {
			[]string{"compact", "--to", "abc"}, `--to "abc": want a resource version, a number like 1000000123`,
		},
		"compact to nothing":  {[]string{"compact", "--to", "0"}, `--to "0": want a resource version`},
		"compact an argument": {[]string{"compact", "5"}, `gapless compact takes no arguments, but got "5"`},
		"fsck what":           {[]string{"fsck"}, "name one data directory, for example: gapless fsck gapless-data; got 0"},
		"version of what":     {[]string{"version", "5"}, `gapless version takes no arguments, but got "5"`},
		"watch what":          {[]string{"watch"}, "gapless watch pods"},
		"watch too much":      {[]string{"watch", "pods", "a", "b"}, "at most 2"},
		"bad output":          {[]string{"watch", "pods", "-o", "xml"}, "wide, json, yaml, name"},
		"bad selector":        {[]string{"watch", "pods", "-l", "a in"}, "--selector"},
		"bad field selector":  {[]string{"watch", "pods", "--field-selector", "a"}, "--field-selector"},
		"two namespaces":      {[]string{"watch", "pods", "-A", "-n", "x"}, "one of"},
		"export to two":       {[]string{"export", "a", "b"}, "name one directory"},
		"export selector":     {[]string{"export", "-l", "a in"}, "--selector"},
		"export namespaces":   {[]string{"export", "-A", "-n", "x"}, "one of"},
		"no changes":          {[]string{"demo", "--changes", "0"}, "at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := command(t, c.args...)
			if code != exitUsage || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "--help") {
				t.Errorf("exit code %d, want 2, with %q and where to find help:\n%s", code, c.want, stderr)
			}
			if out != "" {
				t.Errorf("standard output is for data, but got %q", out)
			}
		})
	}
}

func TestFlagsComeFromTheEnvironmentUnlessGiven(t *testing.T) {
	t.Setenv("GAPLESS_HISTORY", "yesterday")
	code, _, stderr := command(t, "serve", "--memory")
	if code != exitUsage || !strings.Contains(stderr, "GAPLESS_HISTORY") {
		t.Errorf("exit code %d, want 2, with the variable's name:\n%s", code, stderr)
	}
	t.Setenv("GAPLESS_HISTORY", "1h")
	t.Setenv("GAPLESS_STOP_AT_ONCE", "perhaps")
	if code, _, stderr = command(t, "serve", "--memory"); code != exitUsage || !strings.Contains(stderr, "GAPLESS_STOP_AT_ONCE") {
		t.Errorf("exit code %d, want 2, with the variable's name:\n%s", code, stderr)
	}
	t.Setenv("GAPLESS_OUTPUT", "xml")
	code, _, stderr = command(t, "watch", "pods", "-o", "json", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	if code != exitRunTime || strings.Contains(stderr, "xml") {
		t.Errorf("exit code %d, want 1 for the kubeconfig that is not there:\n%s", code, stderr)
	}
}

func TestAnErrorAboutAFlagNamesTheVariableThatHasSetIt(t *testing.T) {
	t.Setenv("GAPLESS_OUTPUT", "name")
	code, _, stderr := command(t, "history", "pods")
	if want := `error: --output (set by the environment variable GAPLESS_OUTPUT) "name": want one of`; code != exitUsage ||
		!strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d, want %q:\n%s", code, want, stderr)
	}
	// A flag with a longer name is another one.
	t.Setenv("GAPLESS_OUTPUT", "json")
	if code, _, stderr = command(t, "history", "pods", "--outputs"); code != exitUsage || strings.Contains(stderr, "GAPLESS") {
		t.Errorf("exit code %d, and the variable is named:\n%s", code, stderr)
	}
	code, _, stderr = command(t, "history", "pods", "-o", "name")
	if code != exitUsage || strings.Contains(stderr, "GAPLESS") {
		t.Errorf("exit code %d, and the variable is named, which the flag overrides:\n%s", code, stderr)
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, name := range []string{"", "serve", "compact", "watch", "export", "demo"} {
		args := []string{"--help"}
		if name != "" {
			args = []string{name, "--help"}
		}
		code, out, _ := command(t, args...)
		if code != exitOK || !regexp.MustCompile(`(?m)^Examples:\n(  #.*\n)?  gapless `).MatchString(out) {
			t.Errorf("gapless %v: exit code %d, no example in\n%s", args, code, out)
		}
	}
}

func TestVersionNamesTheKubernetesVersion(t *testing.T) {
	t.Setenv("GAPLESS_VERSION", "7") // is that of no flag
	code, out, _ := command(t, "version")
	if code != exitOK || !strings.HasPrefix(out, "gapless v1.37.") {
		t.Errorf("exit code %d, output %q", code, out)
	}
	if flagged, same, stderr := command(t, "--version"); flagged != exitOK || same != out {
		t.Errorf("--version: exit code %d, output %q:\n%s", flagged, same, stderr)
	}
	if bare, help, stderr := command(t); bare != exitOK || !strings.Contains(help, "--version") {
		t.Errorf("without a command: exit code %d, output %q:\n%s", bare, help, stderr)
	}
}

func TestCompletionIsAScript(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, stderr := command(t, "completion", shell); code != exitOK || !strings.Contains(out, "gapless") {
			t.Errorf("%s: exit code %d: %s", shell, code, stderr)
		}
	}
}
