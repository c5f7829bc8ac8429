package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/relay/kept"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// keeping returns an Access that keeps its answers in a directory.
func keeping(t *testing.T, dir string, mode Mode) *Access {
	t.Helper()
	a, err := New(Config{
		Mode: mode, Upstream: &rest.Config{Host: "https://127.0.0.1:1"}, Allowed: 10 * time.Second, Stale: 5 * time.Minute,
		Kept: kept.In(dir, "decisions", kept.SourceOf("https://127.0.0.1:1", nil)),
	})
	if err != nil {
		t.Fatalf("make: %v", err)
	}
	return a
}

// jane is a user with all that a user can have.
func jane() user.Info {
	return &user.DefaultInfo{
		Name: "jane", UID: "7", Groups: []string{"a", "system:authenticated"}, Extra: map[string][]string{"x": {"1", "2"}},
	}
}

// TestKeptAnswersAreUsedNoLongerThanInOneProcess starts an Access again at different times after its answers.
func TestKeptAnswersAreUsedNoLongerThanInOneProcess(t *testing.T) {
	refused := &wire.StatusError{
		ErrStatus: metav1.Status{
			Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no",
		},
	}
	for _, c := range []struct {
		name       string
		between    time.Duration // the answers and the start
		end        time.Duration // of the token after the answer; 0: it has none
		usable     bool
		thenUnused time.Duration // after the start
	}{
		{"at once", time.Second, 0, true, 5*time.Minute - time.Second},
		{"just in time", 5*time.Minute - time.Second, 0, true, time.Second},
		{"too late", 5 * time.Minute, 0, false, 0},
		{"the token ends earlier", time.Second, time.Minute, true, 59 * time.Second},
		{"the token has ended", time.Minute, time.Minute, false, 0},
		{"the clock went back", -time.Second, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				a := keeping(t, dir, Reviews)
				r, _ := a.mode.(*reviews)
				asked := time.Now()
				if c.between < 0 {
					asked = asked.Add(-c.between)
				}
				end := time.Time{}
				if c.end > 0 {
					end = asked.Add(c.end)
				}
				token, allowed, denied := a.keyOf([]byte("token")), a.keyOf([]byte("may")), a.keyOf([]byte("may not"))
				r.tokens.keep(token, answer[user.Info]{value: jane(), fresh: 10 * time.Second, end: end}, asked)
				a.decisions.keep(allowed,
					answer[verdict]{value: verdict{allowed: true, reason: "a role"}, fresh: 10 * time.Second, end: end}, asked)
				a.decisions.keep(denied, answer[verdict]{value: verdict{refusal: refused}, fresh: 10 * time.Second, end: end},
					asked)
				a.keep()
				wait(max(c.between, 0))

				again := keeping(t, dir, Reviews)
				if err := again.Restore(); err != nil {
					t.Fatalf("restore again: %v", err)
				}
				if again.keyOf([]byte("token")) != token {
					t.Error("keys are other ones")
				}
				r, _ = again.mode.(*reviews)
				who, may, mayNot := r.tokens.usable(token, time.Now()), again.decisions.usable(allowed,
					time.Now()), again.decisions.usable(denied, time.Now())
				if (who != nil) != c.usable || (may != nil) != c.usable || (mayNot != nil) != c.usable {
					t.Fatalf("usable: %v %v %v, want %v", who, may, mayNot, c.usable)
				}
				if !c.usable {
					return
				}
				if diff := cmp.Diff(jane(), who.value); diff != "" {
					t.Error(diff)
				}
				if !may.value.allowed || may.value.reason != "a role" || mayNot.value.allowed ||
					kube.Classify(mayNot.value.refusal) != kube.OutcomeForbidden {
					t.Errorf("the decisions are %+v and %+v", may.value, mayNot.value)
				}
				if now := time.Now(); now.Before(who.until) || now.Before(may.until) {
					t.Error("upstream is not asked before they are used")
				}
				wait(c.thenUnused)
				if r.tokens.usable(token, time.Now()) != nil || again.decisions.usable(allowed, time.Now()) != nil {
					t.Error("the answers are used for longer than by the process that kept them")
				}
			})
		})
	}
}

// TestAnswersOfAnotherModeAreNotUsed: keys and users mean something else there.
func TestAnswersOfAnotherModeAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	a := keeping(t, dir, Passthrough)
	p, _ := a.mode.(*passthrough)
	p.accepted.keep(a.keyOf([]byte("x")), answer[struct{}]{}, time.Now())
	a.keep()
	again := keeping(t, dir, Passthrough)
	p, _ = again.mode.(*passthrough)
	if err := again.Restore(); err != nil || p.accepted.usable(a.keyOf([]byte("x")), time.Now()) == nil {
		t.Errorf("credentials are not known after a start in the same mode: %v", err)
	}
	if err := keeping(t, dir, Reviews).Restore(); !errors.Is(err, kept.ErrUnusable) {
		t.Errorf("in another mode: %v, want that it is not used", err)
	}
}

// TestAClientCAThatWasKeptIsUsedUntilUpstreamAnswers, but none that is damaged.
func TestAClientCAThatWasKeptIsUsedUntilUpstreamAnswers(t *testing.T) {
	file := kept.In(t.TempDir(), "client-ca", kept.Source{})
	ca, err := ClientCAFromUpstream(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatalf("client CA from upstream: %v", err)
	}
	if err := file.Save([]byte("no certificate")); err != nil {
		t.Fatalf("save file: %v", err)
	}
	if err := ca.Keep(file); !errors.Is(err, kept.ErrUnusable) || ca.Known() {
		t.Errorf("%v, known: %v, want that it is not used", err, ca.Known())
	}
}

func FuzzKeptAnswers(f *testing.F) {
	good, err := json.Marshal(keptAccess{
		Mode: Reviews, Salt: make([]byte, 32),
		Tokens: []keptAnswer[keptUser]{{Key: make([]byte, 32), Asked: time.Now(), Value: keptUserOf(jane())}},
	})
	if err != nil {
		f.Fatalf("encode as JSON: %v", err)
	}
	f.Add(good)
	f.Add([]byte(`{"salt":"AAAA","decisions":[{"key":"AA==","value":{"refusal":{}}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var was keptAccess
		if decodeKept(body, &was) != nil {
			return
		}
		m := newMemo[verdict](2, Config{Stale: time.Minute}, func(source) {})
		restore(m, was.Decisions, time.Now(), keptVerdict.verdict)
		if m.order.Len() > m.most || m.order.Len() != len(m.found) {
			t.Errorf("%d answers, %d of them found", m.order.Len(), len(m.found))
		}
		for k, e := range m.found {
			v, _ := e.Value.(*known[verdict])
			if !bytes.Equal(v.key[:], k[:]) || v.asked.After(time.Now()) || v.value.refusal != nil && v.value.allowed {
				t.Errorf("the answer is %+v", v)
			}
		}
	})
}
