package differential_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
	"github.com/gapless-io/gapless/conformance/oracle"
)

// pair is a reference server and the program, each on a directory of its own.
type pair struct {
	upstream *upstream
	gapless  *program
	hook     *hook
}

// newPair starts both and ends them with the test.
func newPair(t *testing.T, binary string) *pair {
	t.Helper()
	p := &pair{upstream: newUpstream(t), gapless: newProgram(t, binary), hook: newHook(t)}
	return p
}

// upstream is the reference server, as package play wants it.
type upstream struct{ server *oracle.Server }

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	// No compaction but those that are asked for.
	s, err := oracle.Start(t.Context(), oracle.Options{
		Dir: t.TempDir(), NoSync: true, Flags: []string{"--etcd-compaction-interval=0"},
	})
	if err != nil {
		t.Fatalf("start the reference server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the reference server: %v", err)
		}
	})
	return &upstream{server: s}
}

func (u *upstream) Target() play.Target {
	e := u.server.Endpoint()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(e.CA))
	return play.Target{URL: e.URL, Token: e.Token, TLS: &tls.Config{RootCAs: roots}}
}

func (u *upstream) Compact(ctx context.Context) error {
	now, err := u.server.Revision(ctx)
	if err != nil {
		return err
	}
	return u.server.Compact(ctx, now)
}

// Forget restarts as well: the watch cache's window forgets nothing otherwise.
func (u *upstream) Forget(ctx context.Context) error {
	return errors.Join(u.Compact(ctx), u.server.Restart(ctx))
}

func (u *upstream) Restart(ctx context.Context) error { return u.server.Restart(ctx) }

// Crash is a restart: the process is the test's own. What etcd acknowledged is
// there either way.
func (u *upstream) Crash(ctx context.Context) error { return u.server.Restart(ctx) }

// program is `gapless serve`, as package play wants it.
type program struct {
	t      *testing.T // the one that is played now
	server *harness.Server
	tls    *tls.Config
}

func newProgram(t *testing.T, binary string, flags ...string) *program {
	t.Helper()
	p := &program{t: t, server: harness.StartProgram(t, binary, append([]string{"--bootstrap", "none"}, flags...)...)}
	config, err := clientcmd.BuildConfigFromFlags("", p.server.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	if p.tls, err = rest.TLSConfigFor(config); err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	// The reference server has no namespaces; here they must be there.
	for _, name := range []string{"n", "a", "a-b", "b"} {
		if err := p.post(t.Context(), "/api/v1/namespaces", map[string]any{
			"metadata": map[string]any{"name": name},
		}); err != nil {
			t.Fatalf("post: %v", err)
		}
	}
	return p
}

func (p *program) Target() play.Target { return play.Target{URL: p.server.URL, TLS: p.tls} }

// post sends an object that must be accepted.
func (p *program) post(ctx context.Context, path string, object any) error {
	return post(ctx, p.Target(), path, object)
}

func (p *program) Compact(ctx context.Context) error {
	return p.post(ctx, "/gapless/v1/compact", map[string]any{"olderThan": "1ns"})
}

func (p *program) Forget(ctx context.Context) error { return p.Compact(ctx) }

func (p *program) Restart(context.Context) error {
	p.server.Restart(p.t) //nolint:contextcheck // it has the test's
	return nil
}

func (p *program) Crash(context.Context) error {
	p.server.Crash(p.t) //nolint:contextcheck // it has the test's
	return nil
}

// post sends an object to a server, which must accept it.
func post(ctx context.Context, to play.Target, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	code, answer, err := send(to, req)
	if err == nil && code/100 != 2 {
		err = fmt.Errorf("POST %s: %d %s", path, code, answer)
	}
	return err
}

// send sends a request on a connection of its own and returns the whole answer.
func send(to play.Target, req *http.Request) (int, []byte, error) {
	if to.Token != "" {
		req.Header.Set("Authorization", "Bearer "+to.Token)
	}
	transport := &http.Transport{TLSClientConfig: to.TLS}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// schemas of the resources that scripts use: every property that is not in them is
// pruned.
const (
	fooSchema = `{"type":"object","properties":{
		"spec":{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"integer","minimum":0},"text":{"type":"string"}}},
		"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}`
	barSchema = `{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`
)

// version is one version of a definition.
func version(name, schema string, storage bool, more map[string]any) map[string]any {
	v := map[string]any{
		"name": name, "served": true, "storage": storage,
		"schema": map[string]any{"openAPIV3Schema": json.RawMessage(schema)},
	}
	maps.Copy(v, more)
	return v
}

// definitions are the CustomResourceDefinitions of a group: foos, with all there is,
// and bars, which have no namespace.
func definitions(group string) map[string]any {
	full := map[string]any{
		"subresources":     map[string]any{"status": map[string]any{}},
		"selectableFields": []any{map[string]any{"jsonPath": ".spec.color"}},
		"additionalPrinterColumns": []any{
			map[string]any{"name": "Color", "type": "string", "jsonPath": ".spec.color"},
			map[string]any{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
			map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
		},
	}
	define := func(plural, kind, scope string, versions ...any) map[string]any {
		return map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural + "." + group},
			"spec": map[string]any{
				"group": group, "scope": scope, "versions": versions,
				"names": map[string]any{
					"plural": plural, "singular": strings.TrimSuffix(plural, "s"), "kind": kind, "listKind": kind + "List",
				},
			},
		}
	}
	return map[string]any{
		"foos": define("foos",
			"Foo", "Namespaced", version("v1", fooSchema, true, full), version("v1beta1", fooSchema, false, full)),
		"bars": define("bars", "Bar", "Cluster", version("v1", barSchema, true, nil)),
	}
}

// play plays one script against both servers concurrently, each with definitions of a
// group of its own.
func (p *pair) play(t *testing.T, one script.Script, group string) (upstream, gapless play.Transcript) {
	t.Helper()
	p.gapless.t = t
	variables := map[string]string{
		"group": group, "api": "/apis/" + group + "/v1", "crds": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	}
	variables["hook"], variables["hookca"] = p.hook.URL, p.hook.ca()
	variables["foos"] = variables["api"] + "/namespaces/n/foos"
	variables["bars"] = variables["api"] + "/bars"
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		if failed = define(t.Context(), p.upstream, group); failed == nil {
			upstream = play.Play(t.Context(), p.upstream, one, variables)
		}
	})
	err := define(t.Context(), p.gapless, group)
	if err == nil {
		gapless = play.Play(t.Context(), p.gapless, one, variables)
	}
	wg.Wait()
	if failed != nil || err != nil {
		t.Fatalf("define the resources: upstream: %v; gapless: %v", failed, err)
	}
	return upstream, gapless
}

// define makes the resources of a group and waits until they are served.
func define(ctx context.Context, server play.Server, group string) error {
	to := server.Target()
	for plural, definition := range definitions(group) {
		if err := post(ctx, to, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition); err != nil {
			return err
		}
		if err := served(ctx, to, "/apis/"+group+"/v1/"+plural); err != nil {
			return err
		}
	}
	return nil
}

// served waits until a list is answered.
func served(ctx context.Context, to play.Target, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.URL+path, http.NoBody)
		if err != nil {
			return err
		}
		code, answer, err := send(to, req)
		if err == nil && code == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is never served: %d %s %w", path, code, answer, err)
		}
	}
}
