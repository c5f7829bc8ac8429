package past_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/cmd/gapless/past"
	"github.com/gapless-io/gapless/gaplesstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errUsage = errors.New("usage")

// verdict is an exit code.
type verdict int

func (v verdict) Error() string { return fmt.Sprint("exit code ", int(v)) }

// rig is a server, and what runs commands against it.
type rig struct {
	t      *testing.T
	cfg    *rest.Config
	client kubernetes.Interface
	zone   *time.Location
	color  bool
}

func newRig(t *testing.T, cfg *rest.Config) *rig {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return &rig{t: t, cfg: cfg, client: c, zone: time.UTC}
}

// run runs a command line.
func (r *rig) run(args ...string) (out, stderr string, err error) {
	r.t.Helper()
	var o, e bytes.Buffer
	err = r.runTo(r.t.Context(), &o, &e, args...)
	return o.String(), e.String(), err
}

// runTo runs a command line until it ends, or ctx does.
func (r *rig) runTo(ctx context.Context, o, e io.Writer, args ...string) error {
	root := &cobra.Command{Use: "gapless", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(past.Program{
		Out: o, Err: e, Color: r.color,
		Usage:   func(err error) error { return errors.Join(errUsage, err) },
		Verdict: func(code int) error { return verdict(code) },
		Now:     func() time.Time { return time.Now().In(r.zone) },
		Connect: func(cmd *cobra.Command) func() (*rest.Config, string, error) {
			namespace := cmd.Flags().StringP("namespace", "n", "default", "")
			return func() (*rest.Config, string, error) { return r.cfg, *namespace, nil }
		},
	}.Commands()...) //nolint:contextcheck // commands have the context of ExecuteContext
	root.SetArgs(args)
	root.SetOut(o)
	root.SetErr(e)
	return root.ExecuteContext(ctx)
}

// shows runs a command that succeeds.
func (r *rig) shows(args ...string) string {
	r.t.Helper()
	out, stderr, err := r.run(args...)
	if err != nil {
		r.t.Fatalf("gapless %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr)
	}
	return out
}

// fails runs a command that fails, with these words, and prints nothing.
func (r *rig) fails(want string, args ...string) {
	r.t.Helper()
	out, stderr, err := r.run(args...)
	if err == nil || out != "" || !strings.Contains(err.Error()+stderr, want) {
		r.t.Errorf("gapless %s: %v, want %q, and no output\n%s%s", strings.Join(args, " "), err, want, out, stderr)
	}
}

// apply applies a manifest as a field manager.
func (r *rig) apply(manager, path, manifest string) {
	r.t.Helper()
	err := r.client.CoreV1().RESTClient().Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", manager).
		Param("force", "true").Body([]byte(manifest)).Do(r.t.Context()).Error()
	if err != nil {
		r.t.Fatalf("apply %s: %v", path, err)
	}
}

// merge patches an object.
func (r *rig) merge(manager, path, patch string) {
	r.t.Helper()
	err := r.client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", manager).
		Body([]byte(patch)).Do(r.t.Context()).Error()
	if err != nil {
		r.t.Fatalf("patch %s: %v", path, err)
	}
}

func (r *rig) remove(path string) {
	r.t.Helper()
	if err := r.client.CoreV1().RESTClient().Delete().AbsPath(path).Do(r.t.Context()).Error(); err != nil {
		r.t.Fatalf("delete %s: %v", path, err)
	}
}

const (
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	configMaps  = "/api/v1/namespaces/default/configmaps"
)

// web is a Deployment.
const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","annotations":{"a":"1"}},"spec":{"replicas":3,
	"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
	"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`

func configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, value)
}

// general has # for what differs from run to run: times, resourceVersions and uids, and one space for several.
func general(text string) string {
	for _, g := range [][2]string{
		{`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`, "#"},
		{`1000\d{6}`, "#"},
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "#"},
		{` +`, " "},
	} {
		text = regexp.MustCompile(g[0]).ReplaceAllString(text, g[1])
	}
	return text
}

// forgetful is a server before another one, which ignores what asks for the past, as kube-apiserver does.
func forgetful(t *testing.T, cfg *rest.Config) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatalf("make a transport: %v", err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatalf("parse the host: %v", err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			q := r.Out.URL.Query()
			for _, name := range []string{"changes", "at", "since", "until", "previous"} {
				q.Del(name)
			}
			if !q.Has("limit") { // of one object
				q.Del("resourceVersion")
				q.Del("resourceVersionMatch")
			}
			r.Out.URL.RawQuery = q.Encode()
		},
	})
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return &rest.Config{Host: s.URL}
}

// create creates many ConfigMaps, or changes them.
func (r *rig) create(ctx context.Context, n int, value string) {
	r.t.Helper()
	for i := range n {
		_, err := r.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%03d", i)}, Data: map[string]string{"a": value},
		}, metav1.CreateOptions{})
		if err != nil {
			r.t.Fatalf("create a ConfigMap: %v", err)
		}
	}
}

// documents decodes what -o json prints.
func documents(t *testing.T, out string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var d map[string]any
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, d)
	}
	return all
}

func openServer(t *testing.T) (*gaplesstest.Server, *rig) {
	t.Helper()
	s := gaplesstest.New(t, gaplesstest.WithoutPort())
	return s, newRig(t, s.RESTConfig())
}
