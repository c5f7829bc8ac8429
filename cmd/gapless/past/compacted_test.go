package past_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/cmd/gapless/past"
	"github.com/gapless-io/gapless/gaplesstest"
)

// before is a transport that calls do before a request for a second page.
type before struct {
	next http.RoundTripper
	do   func()
}

// RoundTrip implements http.RoundTripper.
func (b before) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("continue") {
		b.do()
	}
	return b.next.RoundTrip(r)
}

// value finds the new value in a line of the history of a ConfigMap.
var value = regexp.MustCompile(`data\.a \d+→(\d+)`)

// TestAHistoryOverACompactionSaysWhatItHasLost has three pages of changes of one object, of which a compaction removes the
// oldest third, or all, when the first page was read.
func TestAHistoryOverACompactionSaysWhatItHasLost(t *testing.T) {
	const changes = 1200
	for _, all := range []bool{false, true} {
		s := gaplesstest.New(t, gaplesstest.WithoutPort())
		r := newRig(t, s.RESTConfig())
		r.apply("a", configMaps+"/x", configMap("x", "0"))
		var third string
		for i := range changes {
			r.merge("b", configMaps+"/x", fmt.Sprintf(`{"data":{"a":"%d"}}`, i+1))
			if i+1 == changes/3 {
				m, err := r.client.CoreV1().ConfigMaps("default").Get(t.Context(), "x", metav1.GetOptions{})
				if err != nil {
					t.Fatalf("read the ConfigMap: %v", err)
				}
				third = m.ResourceVersion
			}
		}
		compacted := false
		cfg := rest.CopyConfig(r.cfg)
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return before{next, func() {
				switch {
				case compacted:
					return
				case all:
					s.CompactHistory(t)
				default:
					err := r.client.CoreV1().RESTClient().Post().AbsPath("/gapless/v1/compact").
						Body([]byte(`{"upTo":"` + third + `"}`)).Do(t.Context()).Error()
					if err != nil {
						t.Errorf("compact: %v", err)
					}
				}
				compacted = true
			}}
		})
		out, stderr, err := newRig(t, cfg).run("history", "cm/x")
		var shown []string
		for _, line := range value.FindAllStringSubmatch(out, -1) {
			shown = append(shown, line[1])
		}
		var want []string
		for i := changes; i > changes-len(shown); i-- {
			want = append(want, fmt.Sprint(i))
		}
		if !slices.Equal(shown, want) {
			t.Errorf("all %t: %d changes are shown, and not each of the newest", all, len(shown))
		}
		switch {
		case !compacted:
			t.Errorf("all %t: there was one page", all)
		case all && (err == nil || !strings.Contains(err.Error(), "removed on request") || len(shown) < 500):
			t.Errorf("%d changes are shown, and then %v\n%s", len(shown), err, stderr)
		case !all &&
			(err != nil || !strings.Contains(stderr, "# what was before is not known: history begins after resourceVersion ") ||
				len(shown) != changes*2/3):
			t.Errorf("%d changes are shown, want %d, and then %v\n%s", len(shown), changes*2/3, err, stderr)
		}
	}
}

// TestABlameOverACompactionFails: it reads the oldest change first, and cannot know what it has missed.
func TestABlameOverACompactionFails(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "0"))
	for i := range 700 {
		r.merge("b", configMaps+"/x", fmt.Sprintf(`{"data":{"a":"%d"}}`, i+1))
	}
	cfg := rest.CopyConfig(r.cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return before{next, func() { s.CompactHistory(t) }} })
	out, stderr, err := newRig(t, cfg).run("blame", "cm/x")
	if err == nil || !strings.Contains(err.Error(), "removed on request") || out != "" {
		t.Errorf("%v\n%s%s", err, out, stderr)
	}
}

// TestWhatARelayFoundLaterIsSaidToBe has a gap in a page of changes, with a deletion at its beginning.
func TestWhatARelayFoundLaterIsSaidToBe(t *testing.T) {
	const page = `{"kind":"ChangeList","after":"1","upTo":"9","gaps":[{"after":"4","upTo":"6"}],"items":[
{"type":"DELETED","resourceVersion":"7","time":"2026-11-25T14:00:03Z","object":{"metadata":{"name":"seen"}}},
{"type":"MODIFIED","resourceVersion":"6","time":"2026-11-25T14:00:02Z","object":{"metadata":{"name":"m"},"data":{"a":"2"}},
"previous":{"metadata":{"name":"m"},"data":{"a":"1"}}},
{"type":"DELETED","resourceVersion":"4","time":"2026-11-25T14:00:01Z","object":{"metadata":{"name":"found"}}}]}`
	out, err := past.History([]byte(page), "")
	if err != nil || !strings.Contains(out, "deleted (found later)") ||
		!strings.Contains(out, "data.a 1→2 (found later)") || strings.Count(out, "found later") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
