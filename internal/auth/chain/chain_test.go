package chain_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/chain"
)

func known() map[string]auth.Authorizer {
	return map[string]auth.Authorizer{
		"RBAC": auth.MastersOnly{}, "AlwaysAllow": auth.AlwaysAllow{}, "AlwaysDeny": auth.AlwaysDeny{},
	}
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"

func one(mode, name string) string { return "- type: " + mode + "\n  name: " + name + "\n" }

func write(t testing.TB, path, body string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(body), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatalf("rename: %v", err)
	}
}

// lines are the messages of a log, and tell of each.
type lines struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
	return nil
}

// await returns when a line has a text.
func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	for t.Context().Err() == nil {
		l.mu.Lock()
		for _, line := range l.all {
			if strings.Contains(line, text) {
				l.mu.Unlock()
				return
			}
		}
		l.mu.Unlock()
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("the log never has %q: %q", text, l.all)
}

// TestAWrongFileLeavesTheFormerAuthorizers replaces it by files that are wrong in different ways, and by a right one.
func TestAWrongFileLeavesTheFormerAuthorizers(t *testing.T) {
	file, log := filepath.Join(t.TempDir(), "f"), &lines{}
	write(t, file, head+one("AlwaysDeny", "alwaysdeny")+one("AlwaysAllow", "alwaysallow"))
	c, err := chain.Read(chain.Config{Known: known(), File: file, Logger: slog.New(log)})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }() // ends with ctx
	decide := func() auth.Decision {
		return c.Decide(ctx, &user.DefaultInfo{Name: "jane"}, auth.Attributes{Path: "/x"})
	}
	for _, wrong := range []struct{ body, why string }{
		{"nonsense", "cannot unmarshal"},
		{head + one("AlwaysAllow", "alwaysallow"), "missing required types: [AlwaysDeny]"},
		{
			head + one("AlwaysDeny", "alwaysdeny") + one("AlwaysAllow", "alwaysallow") + one("RBAC", "rbac"),
			"not enabled at initial server startup",
		},
		{head + one("AlwaysDeny", "alwaysdeny") + one("AlwaysAllow", "x"), "expected name alwaysallow"},
	} {
		write(t, file, wrong.body)
		log.await(t, wrong.why)
		if !decide().Allowed {
			t.Errorf("%s: the former authorizers are gone", wrong.why)
		}
	}
	write(t, file, head+one("AlwaysAllow", "alwaysallow")+one("AlwaysDeny", "alwaysdeny"))
	log.await(t, "a file of configuration was read again")
	if err := os.Remove(file); err != nil {
		t.Fatalf("remove: %v", err)
	}
	log.await(t, "no such file")
	if !decide().Allowed {
		t.Error("without the file nothing is allowed")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

// TestMastersMayDoEverythingWhateverTheListSays also has the reasons of those that say no.
func TestMastersMayDoEverythingWhateverTheListSays(t *testing.T) {
	c, err := chain.Read(chain.Config{
		Known: known(), Modes: []string{"AlwaysDeny", "RBAC"}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	wanted := auth.Attributes{Path: "/x", Verb: "get"}
	if d := c.Decide(t.Context(), &user.DefaultInfo{Groups: []string{"system:masters"}}, wanted); !d.Allowed {
		t.Errorf("a master: %+v", d)
	}
	const want = "alwaysdeny: Everything is forbidden.\nrbac: only members of system:masters may do this"
	if d := c.Decide(t.Context(), &user.DefaultInfo{Name: "jane"}, wanted); d.Allowed || d.Why() != want {
		t.Errorf("another: %+v %q, want %q", d, d.Why(), want)
	}
	if c.AllowsAll() || !c.Uses("RBAC") || c.Uses("AlwaysAllow") {
		t.Error("the list is not what was given")
	}
}

// FuzzConfiguration reads files: whatever they hold, Read returns authorizers or an error.
func FuzzConfiguration(f *testing.F) {
	f.Add(head + one("RBAC", "rbac"))
	f.Add(
		head + one("Webhook",
			"hook") + "  webhook:\n    timeout: 3s\n    failurePolicy: Deny\n    subjectAccessReviewVersion: v1\n" +
			"    connectionInfo:\n      type: InClusterConfig\n")
	f.Add("")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, body string) {
		file := filepath.Join(dir, "f")
		write(t, file, body)
		c, err := chain.Read(chain.Config{Known: known(), File: file, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			c.Decide(t.Context(), &user.DefaultInfo{Name: "jane"}, auth.Attributes{Path: "/x"})
		}
	})
}
