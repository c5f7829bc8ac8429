package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// why reads the causes of a 410, as a client does.
func (x tree) why(t testing.TB) *kube.ExpiredError {
	t.Helper()
	s := metav1.Status{
		Status: x.text("status"), Reason: metav1.StatusReason(x.text("reason")), Code: http.StatusGone,
		Details: &metav1.StatusDetails{},
	}
	for i := 0; x.at("details", "causes", fmt.Sprint(i)) != nil; i++ {
		at := func(name string) string { return x.text("details", "causes", fmt.Sprint(i), name) }
		if at("field") != "resourceVersion" {
			t.Errorf("cause %s is about %q", at("reason"), at("field"))
		}
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(at("reason")), Message: at("message"),
		})
	}
	e := kube.WhyExpired(&errors.StatusError{ErrStatus: s})
	if e == nil {
		t.Fatalf("%v does not say why", x)
	}
	return e
}

// TestExpiredErrorsHaveTheirReasonAlsoAfterARestart asks behind the floor by a watch,
// a list and a continue token, before and after a restart.
func TestExpiredErrorsHaveTheirReasonAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	began := time.Now().Truncate(time.Second)
	l := launchRestartable(t)
	l.create("default", "a", "1")
	old := l.create("default", "b", "1").rv()
	token := l.must(http.StatusOK, http.MethodGet, configMaps+"?limit=1", "").text("metadata", "continue")
	floor := l.relabel("default", "b", "2").rv()
	l.create("default", "c", "1")
	l.server.compact(t, l.current())
	done := time.Now()
	check := func() {
		t.Helper()
		f := l.watch(configMaps + "?watch=1&resourceVersion=" + old).next()
		list := l.do(http.MethodGet, configMaps+"?resourceVersionMatch=Exact&resourceVersion="+old, "")
		next := l.do(http.MethodGet, configMaps+"?limit=1&continue="+url.QueryEscape(token), "")
		if f.String() != "ERROR 410 Expired" || list.code != http.StatusGone || next.code != http.StatusGone {
			t.Fatalf("%v, %d, %d, want 410", f, list.code, next.code)
		}
		for road, answer := range map[string]tree{"watch": f.object, "list": list.tree(t), "continue": next.tree(t)} {
			e := answer.why(t)
			if e.Oldest.String() != floor || e.Reason != "requested" || e.RemovedAt.Before(began) || e.RemovedAt.After(done) {
				t.Errorf("%s: %+v, want the floor %s, removed on request between %v and %v", road, e, floor, began, done)
			}
			if !strings.Contains(answer.text("details", "causes", "0", "message"), e.RemovedAt.Format(time.RFC3339)) {
				t.Errorf("%s: the sentence does not have the time: %v", road, answer)
			}
		}
	}
	check()
	l.restart(t)
	check()
}

// TestMetricsShowWhyHistoryWasRemoved has one resource whose history was removed by
// request, and one that lost nothing.
func TestMetricsShowWhyHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	l := launchRestartable(t)
	l.create("default", "a", "1")
	l.relabel("default", "a", "2")
	l.server.compact(t, l.current())
	check := func() {
		t.Helper()
		text := string(l.do(http.MethodGet, "/metrics", "").body)
		if !strings.Contains(text, `gapless_history_floor_age_seconds{group="",removed_by="requested",resource="configmaps"} `) {
			t.Error("the age of the floor is not in the metrics")
		}
		if strings.Contains(text, `gapless_history_floor_age_seconds{group="",removed_by="requested",resource="secrets"}`) {
			t.Error("a resource that lost nothing has a floor")
		}
	}
	check()
	l.restart(t)
	check()
}
