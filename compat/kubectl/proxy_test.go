package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/gapless-io/gapless/compat/harness"
)

// inFront starts gapless proxy in front of the server of a kubeconfig, and returns the path of
// the proxy's own.
func inFront(t testing.TB, gapless, kubeconfig string, flags ...string) string {
	t.Helper()
	args := append([]string{"proxy", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "proxy"), "--kubeconfig", kubeconfig}, flags...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), gapless, args...) // it is to be signalled, not killed
	out := &watch{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the proxy ends with %v", err)
		}
		if t.Failed() {
			t.Logf("output of the proxy:\n%s", out.text())
		}
	})
	path := regexp.MustCompile(`(?m)^ *export KUBECONFIG=(.*)$`)
	harness.Eventually(t, "the proxy listens", func() bool { return path.MatchString(out.text()) })
	return path.FindStringSubmatch(out.text())[1]
}

// TestKubectlThroughTheProxy runs scripts of testdata/script against a proxy without rules: reads,
// watches, applies and deletions are as without it.
func TestKubectlThroughTheProxy(t *testing.T) {
	gapless := server(t)
	run(t, site{gapless: gapless, kubectl: newest, scripts: []string{
		"testdata/script/configmaps.txtar", "testdata/script/custom.txtar", "testdata/script/finalizers.txtar", "testdata/script/shop.txtar",
	}, kubeconfig: func(t testing.TB, of string) string { return inFront(t, gapless, of) }})
}

// TestKubectlEntersPodsThroughTheProxy runs kubectl exec, attach and logs, as WebSocket and as SPDY,
// through a proxy in front of a server that has nothing but a pod.
func TestKubectlEntersPodsThroughTheProxy(t *testing.T) {
	kubectl, gapless := filepath.Join(build(t, newest.dir), "kubectl"), server(t)
	pods := httptest.NewServer(http.HandlerFunc(servePod))
	t.Cleanup(pods.Close)
	of := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(of, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":%q}}]}`, pods.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := inFront(t, gapless, of, "--rule", "unavailable,names=busy,subresources=exec", "--rule", "cut,how=clean,names=busy,subresources=log")
	for _, sockets := range []string{"true", "false"} {
		for _, c := range []struct {
			command      string
			code         int
			want, errors string // what is printed, and what the errors contain
		}{
			{"exec -i web -- upper", 3, "SENT BY THE TEST", "of upper\ncommand terminated with exit code 3"},
			{"exec web -- upper", 3, "", "of upper\ncommand terminated with exit code 3"},
			{"attach -i web", 3, "SENT BY THE TEST", "of attach"},
			{"logs -f web", 0, "first\nlast\n", ""},
			{"exec busy -- upper", 1, "", "503|unavailable|unable to upgrade"},
			{"get pod web -o name", 0, "pod/web\n", ""},
		} {
			cmd := exec.CommandContext(t.Context(), kubectl, strings.Fields(c.command)...)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir(), "KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+sockets)
			cmd.Stdin = strings.NewReader("sent by the test")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			code := 0
			if exit, is := errors.AsType[*exec.ExitError](err); is {
				code = exit.ExitCode()
			}
			if code != c.code || out.String() != c.want || !regexp.MustCompile(c.errors).MatchString(errs.String()) {
				t.Errorf("kubectl %s, WebSockets %s: %v, printed %q and %q; want code %d, %q and %q", c.command, sockets, err, &out, &errs, c.code, c.want, c.errors)
			}
		}
	}
}

// servePod is an API server with two pods, of which only what a kubelet serves works: a command
// prints what it reads in capitals, and ends with code 3.
func servePod(w http.ResponseWriter, r *http.Request) {
	respond := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // kubectl may be gone
	}
	name, subresource, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/default/pods/"), "/")
	switch {
	case r.URL.Path == "/api":
		respond(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		respond(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case r.URL.Path == "/api/v1":
		respond(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: []string{"get"}}},
		})
	case subresource == "":
		respond(corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Stdin: true}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	case subresource == "log":
		for _, line := range []string{"first\n", "last\n"} {
			_, _ = io.WriteString(w, line) // kubectl may be gone
			_ = http.NewResponseController(w).Flush()
		}
	default: // exec or attach
		serveCommand(w, r, subresource)
	}
}

// serveCommand runs a command whose streams are those of a WebSocket or of SPDY.
func serveCommand(w http.ResponseWriter, r *http.Request, subresource string) {
	name := r.URL.Query().Get("command")
	if name == "" {
		name = subresource
	}
	var s streams
	if wsstream.IsWebSocketRequest(r) {
		channels := []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel}
		conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true, Channels: channels}})
		_, all, err := conn.Open(w, r)
		if err != nil {
			return // it was answered
		}
		defer func() { _ = conn.Close() }() // it was read
		s = streams{in: all[0], out: all[1], errs: all[2], status: all[3]}
	} else {
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			return // it was answered
		}
		opened := make(chan httpstream.Stream, 4) // as many as there are at most
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
			opened <- stream
			return nil
		})
		if conn == nil {
			return // it was answered
		}
		defer func() { _ = conn.Close() }() // it was read
		want := 3
		if r.URL.Query().Get("stdin") == "true" {
			want++
		}
		for range want {
			switch stream := <-opened; stream.Headers().Get(corev1.StreamType) {
			case corev1.StreamTypeStdin:
				s.in = stream
			case corev1.StreamTypeStdout:
				s.out = stream
			case corev1.StreamTypeStderr:
				s.errs = stream
			case corev1.StreamTypeError:
				s.status = stream
			}
		}
	}
	s.upper(name, r.URL.Query().Get("stdin") == "true")
}

// streams are those of a command.
type streams struct{ in, out, errs, status io.ReadWriteCloser }

// upper is the command.
func (s streams) upper(name string, reads bool) {
	if reads {
		sent, _ := io.ReadAll(s.in) // its end is that of the connection
		_, _ = s.out.Write(bytes.ToUpper(sent))
	}
	_, _ = io.WriteString(s.errs, "of "+name+"\n")
	text, err := json.Marshal(metav1.Status{
		Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with exit code 3",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: "3"}}},
	})
	if err == nil {
		_, _ = s.status.Write(text)
	}
	for _, stream := range []io.Closer{s.out, s.errs, s.status} {
		_ = stream.Close() // kubectl may be gone
	}
}
