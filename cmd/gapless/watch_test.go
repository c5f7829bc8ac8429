package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
)

// bench is a server with a client of its own.
type bench struct {
	t      *testing.T
	ready  readiness
	client *client.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	_, ready := serveInMemory(t, "--bootstrap", "server") // no ConfigMaps but those of the test
	cfg, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(c.CloseIdle)
	return &bench{t: t, ready: ready, client: c}
}

func (b *bench) do(method, path, contentType, body string) {
	b.t.Helper()
	r := client.Request{Method: method, Path: path, ContentType: contentType}
	if body != "" {
		r.Body = []byte(body)
	}
	resp, err := b.client.Do(b.t.Context(), r)
	if err != nil {
		b.t.Fatalf("send a request: %v", err)
	}
	resp.Body.Close()
}

func (b *bench) create(namespace, name string) {
	b.t.Helper()
	b.do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps", "",
		fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":"1"}}`, name))
}

func (b *bench) change(name, value string) {
	b.t.Helper()
	b.do(http.MethodPatch, "/api/v1/namespaces/default/configmaps/"+name, "application/merge-patch+json",
		fmt.Sprintf(`{"data":{"b":%q}}`, value))
}

func (b *bench) remove(name string) {
	b.t.Helper()
	b.do(http.MethodDelete, "/api/v1/namespaces/default/configmaps/"+name, "", "")
}

func (b *bench) watch(args ...string) *running {
	b.t.Helper()
	return begin(b.t, append([]string{"watch", "--kubeconfig", b.ready.Kubeconfig}, args...)...)
}

func (r *running) shows(t *testing.T, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q is printed", want), func() bool { return strings.Contains(r.out.String(), want) })
}

// squeezed has one space where the output has several, and no ages.
func squeezed(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		words := strings.Fields(line)
		lines = append(lines, strings.Join(words[:len(words)-1], " "))
	}
	return strings.Join(lines, "\n")
}

func TestWatchPrintsServerColumnsAndEveryChange(t *testing.T) {
	b := newBench(t)
	b.create("default", "first")
	b.create("kube-system", "second")
	w := b.watch("configmaps", "-A")
	w.shows(t, "second")
	b.change("first", "2")
	w.shows(t, "MODIFIED")
	b.remove("first")
	w.shows(t, "DELETED")
	const want = `EVENT NAMESPACE NAME DATA
ADDED default first 1
ADDED kube-system second 1
MODIFIED default first 2
DELETED default first 2`
	if got := squeezed(w.out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if code := w.end(); code != exitOK {
		t.Errorf("exit code %d after an interrupt, want 0", code)
	}
	if got := w.err.String(); got != "" {
		t.Errorf("standard error has %q", got)
	}
}

func TestWatchPrintsOneJSONEventPerLine(t *testing.T) {
	b := newBench(t)
	b.create("default", "one")
	w := b.watch("cm", "one", "-o", "json")
	w.shows(t, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap"`)
	b.create("default", "other")
	b.change("one", "2")
	w.shows(t, `"data":{"a":"1","b":"2"}`)
	if got := w.out.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "other") {
		t.Errorf("got\n%s", got)
	}
}

func TestWatchPrintsNamesAndYAML(t *testing.T) {
	b := newBench(t)
	b.create("default", "one")
	names, documents := b.watch("ConfigMap", "-o", "name"), b.watch("configmap", "-o", "yaml")
	names.shows(t, "configmap/one\n")
	documents.shows(t, "type: ADDED\n")
	b.remove("one")
	names.shows(t, "configmap/one\nconfigmap/one deleted\n")
	documents.shows(t, "type: DELETED\n")
}

func TestWatchOfUnknownResourceSuggestsOne(t *testing.T) {
	b := newBench(t)
	code, _, stderr := command(t, "watch", "configmap5", "--kubeconfig", b.ready.Kubeconfig)
	if code != exitRunTime || !strings.Contains(stderr, "did you mean configmaps") {
		t.Errorf("exit code %d, want 1, with a suggestion:\n%s", code, stderr)
	}
}

func TestCompactPrintsWhatItFreed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create("default", "one")
	b.change("one", strings.Repeat("x", 200<<10))
	b.change("one", "2")
	code, out, stderr := command(t, "compact", "--older-than", "0s", "--kubeconfig", b.ready.Kubeconfig)
	if code != exitOK ||
		!regexp.MustCompile(
			`^compacted the history up to resourceVersion 1000000\d\d\d\nfreed 2\d\d KiB of old versions; the log `+
				`is \d+ \w+ smaller\n$`).MatchString(out) {
		t.Errorf("exit code %d, %q:\n%s", code, out, stderr)
	}
	code, _, stderr = command(t, "compact", "--to", "2000000000", "--kubeconfig", b.ready.Kubeconfig)
	if code != exitRunTime || !strings.Contains(stderr, "2000000000") {
		t.Errorf("exit code %d, want 1, with what is wrong:\n%s", code, stderr)
	}
}

// TestWatchEndsWhenTheFirstRequestIsRefused asks for what no retry will ever give.
func TestWatchEndsWhenTheFirstRequestIsRefused(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{}, {"-o", "json"}, {"-A", "-o", "name"}} {
		code, out, stderr := command(t,
			append([]string{"watch", "--kubeconfig", b.ready.Kubeconfig, "cm", "--field-selector", "a=b"}, args...)...)
		if code != exitRunTime || out != "" || !strings.Contains(stderr, "error: ") ||
			!strings.Contains(stderr, `"a" is not a known field selector`) {
			t.Errorf("%v: exit code %d, want 1, with the server's words; %q:\n%s", args, code, out, stderr)
		}
		t.Log(stderr)
	}
}

// TestWatchContinuesAfter410AndPrintsTheDifference cuts a watch off, has the server
// compact what it missed, and lets it reconnect.
func TestWatchContinuesAfter410AndPrintsTheDifference(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	for _, output := range []string{"", "json"} {
		t.Run("output "+output, func(t *testing.T) {
			b := newBench(t)
			for _, name := range []string{"changed", "deleted", "same"} {
				b.create("default", name)
			}
			cfg, err := clientcmd.BuildConfigFromFlags("", b.ready.Kubeconfig)
			if err != nil {
				t.Fatalf("read the kubeconfig: %v", err)
			}
			network := newNetwork()
			cfg.Dial = network.dial
			cut, err := client.New(cfg)
			if err != nil {
				t.Fatalf("make a client: %v", err)
			}
			t.Cleanup(cut.CloseIdle)
			r := &running{code: make(chan int, 1)}
			w := &watching{
				err: &r.err, backend: &plain{client: cut, of: configMaps()},
				printer: newPrinter(output, &r.out, client.Resource{Kind: "ConfigMap"}, false),
			}
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			ended := make(chan error, 1)
			go func() { ended <- w.run(ctx) }() // ends with ctx
			r.shows(t, "same")

			network.cut()
			b.change("changed", "2")
			b.remove("deleted")
			b.create("default", "created")
			if code, _, stderr := command(t, "compact", "--older-than", "0s", "--kubeconfig",
				b.ready.Kubeconfig); code != exitOK {
				t.Fatal(stderr)
			}
			before := len(r.out.String())
			network.restore()
			for _, name := range []string{"created", "changed", "deleted"} {
				eventually(t, name+" is printed", func() bool { return strings.Contains(r.out.String()[before:], name) })
			}
			if got := r.out.String()[before:]; strings.Count(got, "\n") != 3 || strings.Contains(got, "same") {
				t.Errorf("more than the difference was printed:\n%s", got)
			}
			for _, part := range []string{
				"# 410 Gone", "the oldest resourceVersion that can still be asked for is 1", "removed on request, at 2",
			} {
				if !strings.Contains(r.err.String(), part) {
					t.Errorf("standard error does not say why: %q is missing in\n%s", part, r.err.String())
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("wait for the end: %v", err)
			}
		})
	}
}

// full is an output that takes no more.
type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWatchEndsWhenItsOutputFails(t *testing.T) {
	b := newBench(t)
	b.create("default", "one")
	for _, output := range []string{"", "name", "json"} {
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"watch", "cm", "-o", output, "--kubeconfig", b.ready.Kubeconfig},
			streams{out: full{}, err: &stderr})
		if code != exitRunTime || !strings.Contains(stderr.String(), errFull.Error()) {
			t.Errorf("--output %q: exit code %d, want 1, with the reason:\n%s", output, code, stderr.String())
		}
	}
}

func TestCellsHaveNoControlCharacters(t *testing.T) {
	for in, want := range map[any]string{
		"plain": "plain", "red \x1b[31mtext": "red [31mtext", "two\nlines": "two...", nil: "<none>", float64(12): "12",
		true: "true",
	} {
		if got := cell(in); got != want {
			t.Errorf("cell(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzTable feeds whatever a server might send to what reads tables.
func FuzzTable(f *testing.F) {
	f.Add([]byte(`{"kind":"Table","metadata":{"resourceVersion":"7"},"columnDefinitions":[{"name":"Name","type":"string"}],"rows":[{"cells":["a"],"object":{"metadata":{"name":"a"}}}]}`))
	f.Add([]byte(`{"kind":"Table","rows":[{}]}`))
	f.Add([]byte(`{"kind":"ConfigMapList","items":[]}`))
	f.Add([]byte(`{"kind":"Table","columnDefinitions":[{}],"rows":[{"cells":[{"a":[1]}],"object":{"metadata":null}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out bytes.Buffer
		c := &columnar{out: &out}
		backend := &tables{plain: &plain{}, columns: c.columns}
		page, err := backend.decode(raw)
		if err != nil {
			return
		}
		for i := range page.Rows {
			o, err := decodeSeen(page.row(i))
			if err != nil {
				continue
			}
			if err := c.event(informer.Event[*seen]{Type: informer.Added, New: o}); err != nil {
				t.Fatalf("event: %v", err)
			}
		}
		if lines := strings.Count(out.String(), "\n"); lines > len(page.Rows)+1 {
			t.Errorf("%d rows became %d lines:\n%q", len(page.Rows), lines, out.String())
		}
	})
}

func TestTableBookmarksSetThePosition(t *testing.T) {
	for name, object := range map[string]string{
		"in the table": `{"kind":"Table","metadata":{"resourceVersion":"12"},"rows":[]}`,
		"in a row":     `{"kind":"Table","metadata":{},"rows":[{"cells":[],"object":{"metadata":{"resourceVersion":"12"}}}]}`,
		"as an object": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"type":"BOOKMARK","object":` + object + "}\n"
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			stream := &rows{
				Watch: client.ReadWatch(&http.Response{Request: request, Body: io.NopCloser(strings.NewReader(body))}),
				of:    &tables{plain: &plain{}, columns: func([]metav1.TableColumnDefinition) {}},
			}
			f, err := stream.Next()
			if err != nil {
				t.Fatalf("next stream: %v", err)
			}
			if meta, err := f.Meta(); err != nil || meta.ResourceVersion != "12" {
				t.Errorf("the position is %q, %v", meta.ResourceVersion, err)
			}
		})
	}
}
