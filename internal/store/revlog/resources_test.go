package revlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// addUp checks that the figures of the resources are those of the log together.
func addUp(t *testing.T, l *revlog.Log) {
	t.Helper()
	var keys, live, history int64
	for _, of := range l.Resources() {
		keys, live, history = keys+of.Keys, live+of.LiveBytes, history+of.History
	}
	if s := l.Stats(); keys != s.Keys || live+history != s.Retained || history != s.History {
		t.Fatalf("the resources have %d keys, %d bytes and %d of history, and the log %+v", keys, live, history, s)
	}
}

// TestResourcesSayHowFarBackTheirHistoryGoes: before and after something was removed, and after a restart.
func TestResourcesSayHowFarBackTheirHistoryGoes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, revlog.Options{Dir: dir})
		began := time.Now()
		quiet := commit(t, l, "quiet/a", "1")
		first := commit(t, l, "pods/a", "1")
		<-time.After(time.Minute) // of the bubble's clock
		second := commit(t, l, "pods/a", "22")
		later := time.Now()
		<-time.After(time.Minute)
		last := commit(t, l, "pods/a", "333")
		all := l.Resources()
		pods := all["pods"]
		if pods.Keys != 1 || pods.First != (revlog.Moment{Revision: first, Time: began}) || pods.Last.Revision != last ||
			pods.Floor != (revlog.Floor{}) || pods.History == 0 {
			t.Errorf("of pods it has %+v", pods)
		}
		if q := all["quiet"]; q.First != q.Last || q.First.Revision != quiet || q.History != 0 || q.LiveBytes == 0 {
			t.Errorf("of what was written once it has %+v", q)
		}
		addUp(t, l)
		if _, err := l.Compact(t.Context(), store.Compaction{UpTo: second}); err != nil {
			t.Fatalf("compact: %v", err)
		}
		compacted := l.Resources()["pods"]
		if compacted.Floor.Revision != second || !compacted.Floor.Time.Equal(later) || compacted.Floor.Reason != "requested" ||
			compacted.First.Revision != second || compacted.History >= pods.History || compacted.History == 0 {
			t.Errorf("after a compaction up to %d it has %+v", second, compacted)
		}
		addUp(t, l)
		if err := l.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		l = open(t, revlog.Options{Dir: dir})
		if again := l.Resources()["pods"]; again != compacted {
			t.Errorf("after a restart %+v, before it %+v", again, compacted)
		}
	})
}
