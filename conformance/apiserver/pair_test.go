package apiserver_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/apiserver/mix"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

// server is one of the two, as package play wants it, with its webhooks.
type server struct {
	target play.Target
	hook   *hook
	audit  string // the file of its audit log
	tidier *http.Transport
}

func (s *server) Target() play.Target { return s.target }

var errNotHere = errors.New("these scripts neither compact nor restart")

func (*server) Compact(context.Context) error { return errNotHere }
func (*server) Forget(context.Context) error  { return errNotHere }
func (*server) Restart(context.Context) error { return errNotHere }
func (*server) Crash(context.Context) error   { return errNotHere }

// servers are kube-apiserver, and the program twice: on a directory, and over an etcd of its own.
type servers struct {
	upstream, gapless, replica *server
	variables                  map[string]string // of scripts
}

// setup is what differs between the servers of several tests.
type setup struct {
	off, on   []string          // admission plugins that are turned off, and on
	flags     []string          // further ones
	variables map[string]string // of scripts
}

// start starts them, and ends them with the test.
func start(t *testing.T, of setup) *servers {
	t.Helper()
	flags := slices.Concat(switches(of.off, of.on), of.flags)
	key := newKey(t)
	r, binary := startReference(t, key, flags), program(t)
	over := "--etcd-servers=" + etcd.StartFor(t, etcd.Options{NoSync: true}).URL()
	all := &servers{
		variables: of.variables,
		upstream:  &server{target: r.target, audit: r.audit}, gapless: startProgram(t, binary, key, flags...),
		replica: startProgram(t, binary, key, append(slices.Clip(flags), over)...),
	}
	for _, s := range []*server{all.upstream, all.gapless, all.replica} {
		s.hook = newHook(t)
	}
	return all
}

// program is the path of the built program.
func program(t *testing.T) string {
	t.Helper()
	if *built != "" {
		return *built
	}
	binary, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return binary
}

// startProgram starts `gapless serve` with what kube-apiserver has, and more flags.
func startProgram(t *testing.T, binary, key string, more ...string) *server {
	t.Helper()
	audit := filepath.Join(t.TempDir(), "audit.log")
	// Controllers are not kube-apiserver's.
	flags := append([]string{
		"--bootstrap=server",
		"--controllers=-namespace-controller,-garbage-collector-controller,-resourcequota-controller",
	},
		append(common(t, key, audit), more...)...)
	program := harness.StartProgram(t, binary, flags...)
	config, err := clientcmd.BuildConfigFromFlags("", program.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", "" // tokens say who calls
	roots, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	return &server{target: play.Target{URL: program.URL, TLS: roots, Token: "root"}, audit: audit}
}

// played is what a script showed at each of the servers.
type played struct{ upstream, gapless, replica play.Transcript }

// play plays one script against all servers concurrently. What they asked webhooks is part of what
// they showed.
func (all *servers) play(t *testing.T, one script.Script) (p played) {
	t.Helper()
	run := func(s *server) play.Transcript {
		s.hook.forget()
		variables := map[string]string{
			"hook": s.hook.URL, "hookca": s.hook.ca(), "down": "https://127.0.0.1:1",
			"crds": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "adm": "/apis/admissionregistration.k8s.io/v1",
			"rbac": "/apis/rbac.authorization.k8s.io/v1", "maps": "/api/v1/namespaces/" + one.Name + "/configmaps",
			"ns":         one.Name,
			"validating": s.hook.webhooks(t, "v", "Fail", answering), "open": s.hook.webhooks(t, "v", "Ignore", answering),
			"mutating":     s.hook.webhooks(t, "m", "Fail", mutatingOnes()),
			"mutatingopen": s.hook.webhooks(t, "m", "Ignore", mutatingOnes()),
			"authz":        "/apis/authorization.k8s.io/v1", "authn": "/apis/authentication.k8s.io/v1",
		}
		maps.Copy(variables, mix.Kept())
		maps.Copy(variables, all.variables)
		transcript := play.Play(t.Context(), s, one, variables)
		return transcript
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.upstream = run(all.upstream) })
	wg.Go(func() { p.replica = run(all.replica) })
	p.gapless = run(all.gapless)
	wg.Wait()
	for name, of := range map[string]struct {
		server     *server
		transcript *play.Transcript
	}{
		"kube-apiserver": {all.upstream, &p.upstream}, "gapless": {all.gapless, &p.gapless},
		"gapless over etcd": {all.replica, &p.replica},
	} {
		*of.transcript = of.server.complete(t, *of.transcript)
		if of.transcript.Stopped != "" {
			t.Errorf("%s: the script stopped: %s", name, of.transcript.Stopped)
		}
	}
	return p
}

// complete makes tokens readable, gives what a server chooses by chance names, and adds audit events and what webhooks
// were asked.
func (s *server) complete(t *testing.T, transcript play.Transcript) play.Transcript {
	t.Helper()
	for _, r := range transcript.Results {
		if r.Answer != nil {
			r.Answer.Body = chosen{}.hide(readable(t, r.Answer.Body))
		}
	}
	transcript.Results = append(transcript.Results, append(s.events(t, transcript), s.hook.heard()...)...)
	return transcript
}

// get asks as the caller of the target.
func get(t *testing.T, to play.Target, path string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to.URL+path, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	code, body, err := send(to, req)
	if err != nil {
		return 0, nil
	}
	return code, body
}

// send sends a request on a connection of its own and returns the whole answer.
func send(to play.Target, req *http.Request) (int, []byte, error) {
	if req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+to.Token)
	}
	transport := &http.Transport{TLSClientConfig: to.TLS.Clone()}
	defer transport.CloseIdleConnections()
	return roundTrip(transport, req)
}

func roundTrip(transport *http.Transport, req *http.Request) (int, []byte, error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// must sends an object as the administrator, and fails the test unless it is accepted.
func must(t *testing.T, to play.Target, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	code, answer, err := send(to, req)
	if err != nil || code/100 != 2 {
		t.Fatalf("%s %s: %d %s %v", method, path, code, answer, err)
	}
	return answer
}
