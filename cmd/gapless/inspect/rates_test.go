package inspect

import (
	"testing"
	"time"

	"github.com/gapless-io/gapless/status"
)

// TestRatesAreThoseBetweenTwoAnswers: in events per second; a watch that was not there before has none.
func TestRatesAreThoseBetweenTwoAnswers(t *testing.T) {
	at := time.Now()
	r := &rates{now: func() time.Time { return at }}
	old := status.Watch{Client: status.Client{User: "jane", Since: at.Add(-time.Hour)}, Delivered: 10}
	r.next([]status.Watch{old})
	if got := r.of(&old).text; got != "-" {
		t.Errorf("with one answer the rate is %s", got)
	}
	at = at.Add(2 * time.Second)
	old.Delivered = 15
	fresh := status.Watch{Client: status.Client{User: "jane", Since: at}, Delivered: 7}
	r.next([]status.Watch{old, fresh})
	if got := r.of(&old).text; got != "2.5" {
		t.Errorf("five events in two seconds are %s per second", got)
	}
	if got := r.of(&fresh).text; got != "-" {
		t.Errorf("the rate of a watch that was not there is %s", got)
	}
}
