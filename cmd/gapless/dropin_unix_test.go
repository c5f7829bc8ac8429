//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// called is the program as a process of its own, which is called by another name.
func called(t *testing.T, name string, args ...string) (*exec.Cmd, *text) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	// Not to end with the test's context: the process is to be signalled, not killed.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), own, args...)
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), asProgram+"=1")
	said := &text{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// launch starts such a process, and ends it with the test.
func launch(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd, said := called(t, name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			terminate(t, cmd)
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, said.String())
		}
	})
	return cmd
}

// terminate ends a process as package envtest does, and checks that it ends well.
func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal %s: %v", cmd.Args[0], err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v", cmd.Args[0], err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = l.Close() }() // nobody has connected
	return l.Addr().String()
}

// answer returns the status and the body of an answer; 0 if there is none.
func answer(client *http.Client, method, url, body string) (int, string) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(read)
}

// plane is an etcd and a kube-apiserver.
type plane struct {
	dir, etcdAddress, address string
	etcd, api                 *exec.Cmd
}

func (p *plane) url(path string) string { return "https://" + p.address + path }

func (p *plane) startEtcd(t *testing.T) {
	t.Helper()
	p.etcd = launch(t, "etcd", "--data-dir="+p.dir, "--listen-client-urls=http://"+p.etcdAddress, "--unsafe-no-fsync=true",
		"--listen-peer-urls=http://127.0.0.1:0", "--advertise-client-urls=http://"+p.etcdAddress)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	eventually(t, "etcd is healthy", func() bool {
		code, _ := answer(client, http.MethodGet, "http://"+p.etcdAddress+"/health", "")
		return code == http.StatusOK
	})
}

// startAPI starts kube-apiserver, waits until it is healthy for a client without credentials,
// and returns one with those of an administrator.
func (p *plane) startAPI(t *testing.T, flags ...string) *http.Client {
	t.Helper()
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatalf("split an address: %v", err)
	}
	p.api = launch(t, "kube-apiserver", append([]string{
		"--etcd-servers=http://" + p.etcdAddress, "--bind-address=127.0.0.1", "--secure-port=" + port,
		"--authorization-mode=RBAC",
		"--cert-dir=" + t.TempDir(), "--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true",
		"--disable-admission-plugins=ServiceAccount",
	}, flags...)...)
	// as envtest's check
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer anybody.CloseIdleConnections()
	eventually(t, "kube-apiserver is healthy", func() bool {
		code, _ := answer(anybody, http.MethodGet, p.url("/healthz"), "")
		return code == http.StatusOK
	})
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "gapless", "kubeconfig"))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestObjectsOfAnEnvtestAreThereAsLongAsTheDirectoryOfEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	p := &plane{dir: t.TempDir(), etcdAddress: freeAddress(t), address: freeAddress(t)}
	const maps = "/api/v1/namespaces/default/configmaps"
	p.startEtcd(t)
	client := p.startAPI(t)
	if code, body := answer(client, http.MethodGet, p.url("/api/v1/namespaces/default"), ""); code != http.StatusOK {
		t.Errorf("the namespace default: %d %s", code, body)
	}
	if code, body := answer(client, http.MethodPost, p.url(maps), `{"metadata":{"name":"kept"}}`); code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, body)
	}
	watch, err := client.Get(p.url(maps + "?watch=true"))
	if err != nil {
		t.Fatalf("get client: %v", err)
	}
	terminate(t, p.api)
	if _, err := io.Copy(io.Discard, watch.Body); err != nil {
		t.Errorf("a watch ends with %v, want its end", err)
	}
	if err := watch.Body.Close(); err != nil {
		t.Errorf("close body: %v", err)
	}

	client = p.startAPI(t) // alone
	if code, body := answer(client, http.MethodGet, p.url(maps+"/kept"), ""); code != http.StatusOK {
		t.Errorf("after a restart of kube-apiserver: %d %s", code, body)
	}
	terminate(t, p.api)
	terminate(t, p.etcd)

	p.startEtcd(t)
	client = p.startAPI(t)
	if code, body := answer(client, http.MethodGet, p.url(maps+"/kept"), ""); code != http.StatusOK {
		t.Errorf("after a restart of both: %d %s", code, body)
	}
	terminate(t, p.api)

	client = p.startAPI(t, "--etcd-prefix=/other")
	if code, _ := answer(client, http.MethodGet, p.url(maps+"/kept"), ""); code == http.StatusOK {
		t.Error("it is there with another prefix in etcd too")
	}
}

// suite starts etcd and kube-apiserver as children of another process, as the tests of a package
// are, and waits until kube-apiserver serves. killed kills that process, and returns when the
// programs have ended too.
func suite(t *testing.T, data, certs string) (said *text, killed func()) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	dir, etcd, api := t.TempDir(), freeAddress(t), freeAddress(t)
	_, port, err := net.SplitHostPort(api)
	if err != nil {
		t.Fatalf("split an address: %v", err)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.Symlink(own, filepath.Join(dir, name)); err != nil {
			t.Fatalf("make a link: %v", err)
		}
	}
	parent := exec.CommandContext(t.Context(), "sh", "-c", `"$1/etcd" --data-dir="$4" --listen-client-urls="http://$2" &
"$1/kube-apiserver" --etcd-servers="http://$2" --secure-port="$3" --cert-dir="$5" &
wait`, "sh", dir, etcd, port, data, certs)
	parent.Env = append(os.Environ(), asProgram+"=1")
	said = &text{}
	parent.Stdout, parent.Stderr = said, said
	if err := parent.Start(); err != nil {
		t.Fatalf("start parent: %v", err)
	}
	eventually(t, "kube-apiserver serves", func() bool { return strings.Contains(said.String(), "gapless serves") })
	return said, func() {
		if err := parent.Process.Kill(); err != nil {
			t.Errorf("kill process: %v", err)
		}
		// Wait returns when nobody has the pipe any more to which all three print.
		if err := parent.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Errorf("the parent ended with %v", err)
		}
	}
}

func TestProgramsEndWithTheProcessThatStartedThem(t *testing.T) {
	t.Parallel()
	said, kill := suite(t, filepath.Join(t.TempDir(), "data"), t.TempDir())
	kill()
	if !strings.Contains(said.String(), "draining") {
		t.Errorf("kube-apiserver did not stop as it should:\n%s", said.String())
	}
}

// TestTheNextEnvtestRemovesWhatAKilledOneLeft makes the directories that envtest makes, which
// removes them unless it is killed.
func TestTheNextEnvtestRemovesWhatAKilledOneLeft(t *testing.T) { //nolint:paralleltest // it sets TMPDIR
	in := t.TempDir()
	t.Setenv("TMPDIR", in)
	dirs := map[string]string{}
	for _, name := range []string{
		"k8s_test_framework_1", "k8s_test_framework_2", "k8s_test_framework_3", "k8s_test_framework_4", "chosen",
	} {
		dirs[name] = filepath.Join(in, name)
		if err := os.Mkdir(dirs[name], 0o700); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
	}
	there := func() (names string) {
		for _, name := range slices.Sorted(maps.Keys(dirs)) {
			if _, err := os.Stat(dirs[name]); err == nil {
				names += " " + strings.TrimPrefix(name, "k8s_test_framework_")
			}
		}
		return names
	}
	_, killFirst := suite(t, dirs["k8s_test_framework_1"], dirs["k8s_test_framework_2"])
	_, killChosen := suite(t, dirs["chosen"], t.TempDir())
	next := func() {
		p := &plane{dir: filepath.Join(in, "next"), etcdAddress: freeAddress(t)}
		p.startEtcd(t)
		terminate(t, p.etcd)
	}
	next()
	if got := there(); got != " chosen 1 2 3 4" {
		t.Errorf("while the suites run, there are the directories%s", got)
	}
	killFirst()
	killChosen()
	if got := there(); got != " chosen 1 2 3 4" {
		t.Errorf("when they were killed, there are the directories%s", got)
	}
	next()
	if got := there(); got != " chosen 3 4" {
		t.Errorf("after the next start there are the directories%s, want 3, 4, which nobody marked, and the chosen one", got)
	}
}

func TestProgramsAreWhatTheyAreCalled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command []string
		code    int
		says    string
	}{
		"version":        {[]string{"/a/b/kube-apiserver", "--version"}, 0, "Kubernetes v1.37."},
		"version raw":    {[]string{"kube-apiserver", "--version=raw"}, 0, "Kubernetes v1.37."},
		"help":           {[]string{"kube-apiserver", "--help"}, 0, "--secure-port"},
		"etcd's version": {[]string{"etcd", "--version"}, 0, "etcd Version: 3."},
		"etcd's help":    {[]string{"etcd", "-h"}, 0, "--unsafe-no-fsync"},
		"no etcd":        {[]string{"kube-apiserver"}, 1, "--etcd-servers is required"},
		"refused": {
			[]string{"kube-apiserver", "--tls-sni-cert-key=c,k"},
			1,
			"kube-apiserver: error: --tls-sni-cert-key=c,k is refused: ",
		},
		"ignored": {
			[]string{"kube-apiserver", "--no-such-thing=1", "--tls-sni-cert-key=c,k"}, 1, "--tls-sni-cert-key",
		},
		"an unknown one": {
			[]string{"kube-apiserver", "--no-such-thing=1"},
			1,
			`msg="a flag is ignored" flag=--no-such-thing value=1 reason="the flag is unknown"`,
		},
		"etcd with TLS": {[]string{"etcd", "--cert-file=c"}, 1, "--cert-file=c is refused"},
		"gapless":       {[]string{"gapless", "version"}, 0, "gapless"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, said := called(t, c.command[0], c.command[1:]...)
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.says) {
				t.Errorf("%v, exit code %d, want %d and %q in\n%s", err, code, c.code, c.says, said.String())
			}
		})
	}
}

func TestKubectlRunsTheOneOfPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, said := called(t, "kubectl", "get", "pods")
	cmd.Env = append(cmd.Env, "PATH="+dir)
	if err := cmd.Run(); err == nil || !strings.Contains(said.String(), "gapless has no kubectl, and there is none in PATH") {
		t.Errorf("%v, and it says %q", err, said.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\necho ran \"$@\"\nexit 7\n"), 0o755); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	cmd, said = called(t, "kubectl", "get", "pods")
	cmd.Env = append(cmd.Env, "PATH="+dir)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 7 || said.String() != "ran get pods\n" {
		t.Errorf("%v, and it says %q", err, said.String())
	}
}
