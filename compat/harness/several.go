package harness

import (
	"slices"
	"testing"
	"time"
)

// Second starts another relay of the cluster, until the test ends. Behind [Sides].Relayed.Proxy clients
// can be moved to it: the identity that is returned is Relayed.Client that trusts both relays.
func (s *Sides) Second(t testing.TB) (*Relay, *Identity) {
	t.Helper()
	second := StartRelay(t, s.Relay.program, s.Cluster.Identity("relay").WriteKubeconfig(t, s.Cluster.URL))
	client := *s.Relayed.Client
	other := second.Known(t, &client)
	second.Mirror(t, other.Client(t), "/api/v1/configmaps", "configmaps.v1")
	client.CA = slices.Concat(client.CA, other.CA)
	return second, &client
}

// BetweenRelays moves informers from one relay to the other and back while writers work: between two
// that serve, away from one that is killed, and to one that is behind.
func (s *Sides) BetweenRelays(t *testing.T, second *Relay, informers ...*Informer) {
	t.Helper()
	both, at := []*Relay{s.Relay, second}, 0
	move := func() {
		at = 1 - at
		s.Relayed.Proxy.Move(both[at])
	}
	quiet := func(<-chan struct{}) {}
	play(t, s.Cluster.URL, s.Cluster.Admin.Client(t), []phase{
		{name: "no failure", writes: 30, faults: quiet},
		{name: "moved", writes: 500, faults: func(working <-chan struct{}) { betweenEvents(working, informers, move) }},
		{name: "moved from one that is killed", writes: 300, faults: func(working <-chan struct{}) {
			dead := both[at]
			move()
			dead.Crash(t)
			served(working, informers)
			move()
		}},
		{name: "moved to one that is behind", writes: 300, faults: func(<-chan struct{}) {
			late := both[1-at]
			late.Freeze(t)
			after(t.Context().Done(), time.Second)
			s.Relayed.Proxy.Refuse()
			move()
			late.Thaw(t)
			s.Relayed.Proxy.Accept(t)
		}},
		// The relays list after it, because kube-apiserver has forgotten its window. A client whose last version is
		// inside of what one of them has missed lists there: on a busy machine that relay was a version behind.
		{name: "moved while kube-apiserver restarts", writes: 300, skips: true, jumps: true, faults: func(<-chan struct{}) {
			s.Cluster.Stop()
			move()
			s.Cluster.Start()
			move()
		}},
		{name: "no failure again", writes: 30, faults: quiet},
	}, informers)
}
