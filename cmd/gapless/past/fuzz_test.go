package past_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/cmd/gapless/past"
)

// FuzzChanges feeds whatever a server might send to what reads and prints pages of changes.
func FuzzChanges(f *testing.F) {
	f.Add([]byte(`{"kind":"ChangeList","metadata":{"continue":"x"},"after":"1","upTo":"9","gaps":[{"after":"0","upTo":"3"}],
"items":[{"type":"ADDED","resourceVersion":"2","time":"2026-11-25T14:00:00Z","object":{"metadata":{"name":"a"}}},
{"type":"MODIFIED","resourceVersion":"4","time":"2026-11-25T14:00:00Z","object":{"metadata":{"name":"a"},"status":{"b":[1]}},
"previous":{"metadata":{"name":"a\u001b[2J"}}},
{"type":"DELETED","resourceVersion":"5","time":"2026-11-25T14:00:00Z","object":{"metadata":{"name":"a"}}}]}`))
	f.Add([]byte(`{"kind":"ChangeList","items":[null]}`))
	f.Add([]byte(`{"kind":"ChangeList","items":[{"type":"MODIFIED","object":{"metadata":7}}]}`))
	f.Add([]byte(`{"kind":"ConfigMapList","items":[]}`))
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, output := range []string{"", "wide", "json", "yaml"} {
			out, err := past.History(page, output)
			if err == nil && strings.ContainsAny(out, "\x1b\x07") {
				t.Errorf("a control character is printed: %q", out)
			}
		}
	})
}

// FuzzAuditLog feeds whatever may be in a file to what looks for users in it.
func FuzzAuditLog(f *testing.F) {
	f.Add([]byte(`{"kind":"Event","stage":"ResponseComplete","verb":"update","user":{"username":"a"},
"objectRef":{"resource":"configmaps"},"annotations":{"gapless.io/resource-version":"7"}}` + "\n"))
	f.Add([]byte(`{"kind":"Event","stage":"ResponseComplete","verb":"update","objectRef":{"resource":"configmaps"},` +
		`"responseObject":{"metadata":{"resourceVersion":"7"}}}` + "\n\n{"))
	f.Add([]byte(`{"kind":"Event","stage":"ResponseComplete","verb":"deletecollection","user":{"username":"a"},` +
		`"objectRef":{"resource":"configmaps"},"annotations":{"gapless.io/resource-version":"7-9,11,1-99999999999999,+9"}}` +
		"\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		if n, err := past.Users(log); err == nil && n > strings.Count(string(log), "\n")+strings.Count(string(log), ",") {
			t.Errorf("%d changes in\n%q", n, log)
		}
	})
}
