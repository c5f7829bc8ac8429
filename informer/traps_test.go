package informer_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
)

// The tests in traps*_test.go and nobody*_test.go show, one by one, what the informer
// does where other clients' users fall into a trap, or where no other client does
// anything. docs/traps.md lists them, together with those that stand elsewhere.

var errNoList = errors.New("this server has streaming lists only")

// scripted is a server that says what a test writes down, for what the world does not.
type scripted struct {
	list  func(ctx context.Context, r request, each func([]byte) error) (metav1.ListMeta, error) // nil: errNoList
	watch func(ctx context.Context, r request, say func(frames ...string)) error                 // nil at the end: closed cleanly
}

func (s scripted) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	if s.list == nil {
		return metav1.ListMeta{}, errNoList
	}
	return s.list(ctx, requestFrom(o), each)
}

func (s scripted) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	r := requestFrom(o)
	r.watch = true
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() { // ends with ctx
		defer stop()
		out.CloseWithError(s.watch(ctx, r, func(frames ...string) {
			_, _ = io.WriteString(out, strings.Join(frames, "")) // fails when nobody listens any more
		}))
	}()
	req := (&http.Request{URL: &url.URL{Path: "/things"}}).WithContext(ctx)
	return memoryStream{client.ReadWatch(&http.Response{Body: in, Request: req}), cancel}, nil //nolint:contextcheck // the request has the context
}

func (s scripted) informer(opts ...informer.Option) *informer.Informer[*thing] {
	return informer.New(informer.From("things", s, informer.JSON[*thing]()), opts...)
}

// linger waits for a time, or for the end of ctx.
func linger(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// frame is an event as it is on the wire.
func frame(event, object string) string {
	return `{"type":"` + event + `","object":` + object + "}\n"
}

// mark is a bookmark; the end of the initial events if that is said.
func mark(rv, annotations string) string {
	return frame("BOOKMARK", `{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"`+rv+`"`+annotations+`}}`)
}

const theEnd = `,"annotations":{"k8s.io/initial-events-end":"true"}`

var (
	testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/([^`]+))?`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// TestTrapsAreTested: what docs/traps.md says is tested is tested under that name,
// and the page misses none of the tests that are here for it.
func TestTrapsAreTested(t *testing.T) {
	files, err := testFiles("..")
	if err != nil {
		t.Fatal(err)
	}
	where := map[string]string{} // test -> the texts of the files that have one of that name
	here := map[string]bool{}    // those that the page has to name
	for path, text := range files {
		base := filepath.Base(path)
		for _, f := range testFunc.FindAllStringSubmatch(text, -1) {
			where[f[1]] += text
			if strings.HasPrefix(base, "traps") || strings.HasPrefix(base, "nobody") || strings.HasPrefix(base, "e2e_traps") {
				here[f[1]] = true
			}
		}
	}
	page, err := os.ReadFile("../docs/traps.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| trap ") || strings.HasPrefix(line, "| feature ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 {
			t.Errorf("%d cells: %s", len(cells), line)
			continue
		}
		named := testName.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 && !strings.Contains(cells[2], "**not done**") {
			t.Errorf("no test: %s", line)
		}
		for _, name := range named {
			delete(here, name[1])
			switch text := where[name[1]]; {
			case text == "":
				t.Errorf("there is no test %s: %s", name[1], line)
			case name[2] != "" && !strings.Contains(text, `"`+name[2]+`"`):
				t.Errorf("%s has no case %q: %s", name[1], name[2], line)
			}
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows were found", rows)
	}
	delete(here, "TestTrapsAreTested")
	for name := range here {
		t.Errorf("docs/traps.md does not name %s", name)
	}
}

// testFiles are the texts of all test files below a directory, by path.
func testFiles(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	return all, err
}
