package dashboard

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/gapless-io/gapless/compat/harness"
)

// patience is how long a page may take: the machine may be busy.
const patience = time.Minute

// browser is a tab of Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu     sync.Mutex
	errors []string // of the console
}

// look starts Chromium, which ends with the test. Its profile is in a directory of the test.
func look(t *testing.T, url string) *browser {
	t.Helper()
	harness.Tools(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disk-cache-size", "1"), chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b := &browser{t: t, ctx: ctx, url: url}
	if err := chromedp.Listen(ctx, b.hear); err != nil { // it starts the browser
		t.Fatalf("start Chromium: %v", err)
	}
	call(b, "hear of the log", log.Enable, cdp.Empty{})
	return b
}

// hear notes what the console says. It is called for each event.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, string(e.Type))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
	}
}

// do runs actions, which must work.
func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// call calls a command of the protocol.
func call[P, R any](b *browser, what string, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return result
}

// see goes to a page.
func (b *browser) see(path string) {
	b.t.Helper()
	b.do("see "+path, chromedp.Navigate(b.url+path))
}

// value is what an expression of JavaScript is; a promise is waited for.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true, maybe on another page.
func (b *browser) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		// Between two pages there is an error, or nothing.
		if is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("in vain: %s", expression)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// complains returns what the console has said since it was asked last.
func (b *browser) complains() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.errors
	b.errors = nil
	return said
}

// size sets the viewport and the color scheme.
func (b *browser) size(width int64, scheme string) {
	b.t.Helper()
	b.do("set the viewport", chromedp.EmulateViewport(width, 900))
	call(b, "set the color scheme", emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// axe is the release of axe-core, which looks for what people with disabilities cannot use.
const axe = "4.14.1"

// axeSource installs axe-core outside the checkout, and returns its text.
func axeSource(t *testing.T) string {
	t.Helper()
	harness.Tools(t, "npm")
	dir := filepath.Join(harness.CacheDir(t, "axe"), axe)
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(file); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		out, err := exec.CommandContext(t.Context(), "npm", "install", "--prefix", dir, "--no-audit", "--no-fund",
			"--no-package-lock", "--ignore-scripts", "axe-core@"+axe).CombinedOutput()
		if err != nil {
			t.Fatalf("install axe-core: %v\n%s", err, out)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read axe-core: %v", err)
	}
	return string(text)
}

// violation is a rule that a page breaks.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// accessible reports what axe-core finds on the page.
func (b *browser) accessible(source string) []violation {
	b.t.Helper()
	value[int](b, source+";0")
	text := value[string](b, `axe.run({resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))`)
	var found []violation
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.t.Fatalf("read what axe-core says: %v: %s", err, text)
	}
	return found
}

// shoot writes a picture if DASHBOARD_SCREENSHOTS names a directory.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("DASHBOARD_SCREENSHOTS")
	if dir == "" {
		return
	}
	b.do("make the window small", chromedp.EmulateViewport(800, 600))
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("take a picture: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.t.Fatalf("write a picture: %v", err)
	}
}
