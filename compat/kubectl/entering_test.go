package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/gapless-io/gapless/compat/harness"
)

// kubelet is the part of a node's agent that kube-apiserver asks to enter pods, with the library
// that container runtimes serve it with. There are no containers: the commands are written in Go.
type kubelet struct {
	// more lets the followed logs go on.
	more chan struct{}
}

// patience is how long streams may be idle and take to open. Nothing in the test takes so long.
const patience = time.Minute

// ServeHTTP answers what kube-apiserver asks for: /exec/NAMESPACE/POD/CONTAINER, for example.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(parts) < 3 {
		http.NotFound(w, r)
		return
	}
	pod := parts[2]
	switch parts[0] {
	case "exec", "attach":
		opts, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if parts[0] == "attach" {
			remotecommand.ServeAttach(w, r, k, pod, "", "c", opts, patience, patience, remotecommand.SupportedStreamingProtocols)
			return
		}
		remotecommand.ServeExec(w, r, k, pod, "", "c", r.URL.Query()["command"], opts, patience, patience,
			remotecommand.SupportedStreamingProtocols)
	case "portForward":
		portforward.ServePortForward(w, r, k, pod, "", &portforward.V4Options{}, patience, patience,
			portforward.SupportedProtocols)
	case "containerLogs":
		_, _ = io.WriteString(w, "first\n") // kubectl may be gone
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Get("follow") == "true" {
			select {
			case <-k.more:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "last\n")
	default:
		http.NotFound(w, r)
	}
}

// ExecInContainer runs a command: "upper" prints each line of its input in capitals as soon as it
// has it, and ends with code 3; "zeros" prints many bytes.
func (k *kubelet) ExecInContainer(_ context.Context, _, _, _ string, cmd []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error { //nolint:revive // the library's interface has so many parameters
	if cmd[0] == "zeros" {
		for range zeros / len(chunk) { // a frame of SPDY has less than 16 MiB
			if _, err := io.WriteString(out, chunk); err != nil {
				return err
			}
		}
		return nil
	}
	if in != nil {
		if err := upper(out, in); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(errs, "of %s\n", cmd[0]); err != nil {
		return err
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("%s failed", cmd[0]), Code: 3}
}

// zeros is how much the command of this name prints: more than all buffers on the way hold.
const zeros = 32 << 20

var chunk = strings.Repeat("0", 32<<10)

// AttachContainer is "upper" that does not fail.
func (k *kubelet) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error { //nolint:revive // the library's interface has so many parameters
	return upper(out, in)
}

// PortForward is "upper" at any port.
func (k *kubelet) PortForward(_ context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }() // the client may be gone
	return upper(stream, stream)
}

func upper(out io.Writer, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if _, err := out.Write(append(bytes.ToUpper(lines.Bytes()), '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// visitor enters pods with one version of kubectl, on one way to the cluster.
type visitor struct {
	kubectl, kubeconfig string
	sockets             bool // whether it is to use WebSockets, where it can
	home                string
}

func (v visitor) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, v.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+v.kubeconfig, "HOME="+v.home,
		fmt.Sprintf("KUBECTL_REMOTE_COMMAND_WEBSOCKETS=%v", v.sockets),
		fmt.Sprintf("KUBECTL_PORT_FORWARD_WEBSOCKETS=%v", v.sockets))
	return cmd
}

// runs runs a command, and compares its exit code and what it prints.
func (v visitor) runs(t *testing.T, line string, code int, want, errors string) {
	t.Helper()
	cmd := v.command(t.Context(), strings.Fields(line)...)
	cmd.Stdin = strings.NewReader("sent by the test\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || out.String() != want ||
		!regexp.MustCompile(errors).MatchString(errs.String()) {
		t.Errorf("kubectl %s: %v, printed %.50q (%d bytes) and %q; want code %d, %.50q and %q",
			line, err, out.String(), out.Len(), &errs, code, want, errors)
	}
}

// starts starts a command whose streams the test has. stop returns what else it has said.
func (v visitor) starts(t *testing.T, line string) (in io.WriteCloser, out *bufio.Reader, stop func() string) {
	t.Helper()
	cmd := v.command(t.Context(), strings.Fields(line)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("stdin pipe: %v", err)
	}
	read, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	stop = sync.OnceValue(func() string {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // that it was killed
		if t.Failed() {
			t.Logf("kubectl %s says %q", line, &errs)
		}
		return errs.String()
	})
	t.Cleanup(func() { stop() })
	return in, bufio.NewReader(read), stop
}

// expect reads a line.
func expect(t *testing.T, what string, from *bufio.Reader, want string) {
	t.Helper()
	if line, err := from.ReadString('\n'); line != want || err != nil {
		t.Errorf("%s: %q, %v, want %q", what, line, err, want)
	}
}

// enters does all that kubectl does with a running pod.
func (v visitor) enters(t *testing.T, k *kubelet) {
	v.runs(t, "exec -i web -- upper", 3, "SENT BY THE TEST\n", "of upper\ncommand terminated with exit code 3")
	v.runs(t, "exec web -- upper", 3, "", "of upper\ncommand terminated with exit code 3")
	if v.sockets { // and does not fall back to SPDY
		v.runs(t, "exec -v=4 web -- upper", 3, "", `Subprotocol negotiated.*v5\.channel\.k8s\.io`)
	}
	v.runs(t, "attach -i web", 0, "SENT BY THE TEST\n", "")
	v.runs(t, "logs web", 0, "first\nlast\n", "^$")
	v.runs(t, "exec web -- zeros", 0, strings.Repeat(chunk, zeros/len(chunk)), "^$")
	v.runs(t, "exec nobody -- upper", 1, "", `pods "nobody" not found`)

	in, out, stop := v.starts(t, "exec -i web -- upper")
	for _, word := range []string{"one", "two"} { // no answer waits for what comes later
		if _, err := io.WriteString(in, word+"\n"); err != nil {
			t.Fatalf("write: %v", err)
		}
		expect(t, "exec -i", out, strings.ToUpper(word)+"\n")
	}
	stop()

	_, out, stop = v.starts(t, "logs -f web")
	expect(t, "logs -f", out, "first\n")
	select {
	case k.more <- struct{}{}:
		expect(t, "logs -f", out, "last\n")
	case <-time.After(patience):
		t.Error("nobody follows the logs")
	}
	stop()

	forward := "port-forward pod/web :80 --address=127.0.0.1"
	if v.sockets {
		forward += " -v=4"
	}
	_, out, stop = v.starts(t, forward)
	says, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("read a line: %v", err)
	}
	address, _, found := strings.Cut(strings.TrimPrefix(says, "Forwarding from "), " ->")
	if !found {
		t.Fatalf("port-forward says %q", says)
	}
	for range 2 {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it was read
		if _, err := io.WriteString(conn, "to the port\n"); err != nil {
			t.Errorf("write: %v", err)
		}
		expect(t, "port-forward", bufio.NewReader(conn), "TO THE PORT\n")
	}
	if said := stop(); v.sockets && (!strings.Contains(said, "Before WebSocket Upgrade") || strings.Contains(said, "fallback")) {
		t.Errorf("port-forward did not use a WebSocket: %s", said)
	}
}

// startPod starts the agent of a node, and makes that node and a pod of it.
func startPod(t *testing.T, by visitor) *kubelet {
	t.Helper()
	k := &kubelet{more: make(chan struct{})}
	node := httptest.NewTLSServer(k)
	t.Cleanup(node.Close)
	at, err := url.Parse(node.URL)
	if err != nil {
		t.Fatalf("parse an address: %v", err)
	}
	for _, c := range []struct{ line, input string }{
		{"create -f -", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`},
		{
			fmt.Sprintf(
				`patch node n --subresource=status --type=merge -p {"status":{"addresses":[{"type":"InternalIP",`+
					`"address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, at.Port()), "",
		},
		{
			"create -f -",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"none","stdin":true}]}}`,
		},
		{`patch pod web --subresource=status --type=merge -p {"status":{"phase":"Running"}}`, ""},
		{"create serviceaccount visitor", ""},
		{"create clusterrolebinding visitor --clusterrole=cluster-admin --serviceaccount=default:visitor", ""},
	} {
		cmd := by.command(t.Context(), strings.Fields(c.line)...)
		cmd.Stdin = strings.NewReader(c.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", c.line, err, out)
		}
	}
	return k
}

// withToken returns a copy of a kubeconfig whose user has a token and no certificate.
func withToken(t *testing.T, by visitor, kubeconfig string) string {
	t.Helper()
	token, err := by.command(t.Context(), "create", "token", "visitor").Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	by.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(by.kubeconfig, text, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, line := range []string{
		"config set-credentials visitor --token=" + strings.TrimSpace(string(token)),
		"config set-context --current --user=visitor",
	} {
		if out, err := by.command(t.Context(), strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %.30s: %v: %s", line, err, out)
		}
	}
	return by.kubeconfig
}

// TestKubectlEntersPods runs exec, attach, logs and port-forward of the oldest and the newest kubectl,
// as SPDY and as WebSocket, for a pod of kube-apiserver, directly, through a relay by certificate and
// by token, through a proxy, and through both.
func TestKubectlEntersPods(t *testing.T) {
	s, program := harness.StartSides(t), server(t)
	own := s.Direct.Client.WriteKubeconfig(t, s.Cluster.URL)
	relayed := func(of string) string { return s.Relay.Kubeconfig(t, of, s.Relay.URL) }
	latest := visitor{kubectl: filepath.Join(build(t, newest.dir), "kubectl"), kubeconfig: own, home: t.TempDir()}
	k := startPod(t, latest)
	ways := map[string]string{
		"direct": own, "relay": relayed(own), "relay, token": relayed(withToken(t, latest, own)),
		// Its rules are about another pod.
		"proxy": harness.StartFront(t, program, own, "--rule", "unavailable,names=busy,subresources=exec", "--rule",
			"cut,how=clean,names=busy,subresources=log"),
		"proxy, relay": harness.StartFront(t, program, relayed(own)),
	}
	for way, kubeconfig := range ways {
		for _, sockets := range []bool{true, false} {
			t.Run(fmt.Sprintf("1.%d, %s, WebSockets %v", newest.minor, way, sockets), func(t *testing.T) {
				visitor{latest.kubectl, kubeconfig, sockets, t.TempDir()}.enters(t, k)
			})
		}
	}
	oldest := filepath.Join(build(t, "compat/kubectl/v120"), "kubectl")
	for _, way := range []string{"direct", "relay"} {
		t.Run("1.20, "+way, func(t *testing.T) { visitor{oldest, ways[way], false, t.TempDir()}.enters(t, k) })
	}

	t.Run("who may not", func(t *testing.T) {
		nobody := s.Cluster.Identity("nobody").WriteKubeconfig(t, s.Cluster.URL)
		for _, kubeconfig := range []string{nobody, relayed(nobody)} {
			for _, sockets := range []bool{true, false} {
				v := visitor{latest.kubectl, kubeconfig, sockets, t.TempDir()}
				v.runs(t, "get --raw /api/v1/namespaces/default/pods/web/log", 1, "",
					`User "nobody" cannot get resource "pods/log"`)
				v.runs(t, "create --raw /api/v1/namespaces/default/pods/web/exec?command=upper&stdout=true -f -", 1, "",
					`User "nobody" cannot create resource "pods/exec"`)
			}
		}
	})

	t.Run("rules", func(t *testing.T) {
		v := visitor{
			latest.kubectl, harness.StartFront(t, program, own, "--rule", "unavailable,names=web,subresources=exec"), true,
			t.TempDir(),
		}
		v.runs(t, "exec web -- upper", 1, "", "503|unavailable|unable to upgrade")
		v.runs(t, "get pod web -o name", 0, "pod/web\n", "^$")
		v.sockets = false
		v.runs(t, "exec web -- upper", 1, "", "503|unavailable|unable to upgrade")
	})
}
