package etcd

import (
	"testing"
	"time"
)

// TestAReplicaThatLagsIsAsOldAsWhatItShows: an answer of etcd says nothing of what the replica has not recorded yet.
func TestAReplicaThatLagsIsAsOldAsWhatItShows(t *testing.T) {
	var h health
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	check := func(what string, want time.Time) {
		t.Helper()
		if !h.fresh.Equal(want) {
			t.Errorf("%s, what it shows is that of %v, want %v", what, h.fresh.Sub(began), want.Sub(began))
		}
	}
	h.read(sentRead{sent: at(1), rev: 10}, 10)
	check("up to date", at(1))
	h.read(sentRead{sent: at(2), rev: 20}, 12)
	h.proved(15)
	check("behind", at(1))
	h.read(sentRead{sent: at(3), rev: 30}, 18) // at 20 it has all that there was at the first of the two
	h.proved(20)
	check("up to the first read", at(2))
	h.proved(30)
	h.read(sentRead{sent: at(4), rev: 30}, 30)
	check("up to date again", at(4))
}
