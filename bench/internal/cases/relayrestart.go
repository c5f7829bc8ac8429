package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

const (
	// aloneShare is the part of the informers that upstream gets without a relay: all of them
	// would need hours there.
	aloneShare = 20
	// outageWrites is how many objects change while nobody reaches upstream.
	outageWrites = 100
	// rightWithin bounds how long informers may need.
	rightWithin = 5 * time.Minute
)

// restarts is a server that can be started again behind an address that stays, with clients that
// know it before and after.
type restarts struct {
	*Run

	front   *peer.Front
	all     []*load.Writer // of the objects
	written int64
}

// runRelayRestart measures what happens when upstream cannot be reached for a while, changes
// meanwhile, and is started again: with informers of a relay, and with informers of its own.
func runRelayRestart(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	if r.Program.Name != peer.Gapless {
		if r.Program.Certificates, err = peer.NewCertificates(r.dir + ".certificates"); err != nil {
			return s, err
		}
	}
	if r.Server, err = r.Program.Start(ctx, r.dir); err != nil {
		return s, err
	}
	// It is another server later.
	defer func() { err = errors.Join(err, r.remove()) }()
	if err := r.define(ctx); err != nil {
		return s, err
	}
	x := &restarts{Run: r}
	if x.front, err = peer.NewFront(ctx, r.Server, r.dir+"-front"); err != nil {
		return s, err
	}
	defer x.front.Cut()
	if x.all, err = r.fillWith(ctx, r.Scale.Objects, r.content); err != nil {
		return s, err
	}
	x.written = int64(len(x.all))
	if err := x.ofRelay(ctx, &s); err != nil {
		return s, err
	}
	return s, x.ofUpstream(ctx, &s)
}

// ofRelay is the restart under a relay.
func (x *restarts) ofRelay(ctx context.Context, s *Sample) (err error) {
	dir := x.dir + "-relay"
	// The clients' credentials of before are good: who they are is not what is measured.
	relay, err := x.Relay.StartRelay(ctx, x.Server, x.front, dir, "--resources", x.relayOf(), "--authorization-cache", "1h")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.Stop(), os.RemoveAll(dir)) }()
	if _, err := relay.Complete(ctx, relayWithin); err != nil {
		return err
	}
	fleet, err := load.OpenFleet(ctx, relay.Target, x.collection(), x.Scale.Informers, x.Scale.Objects)
	if err != nil {
		return err
	}
	watches, before := fleet.Watches.Load(), 0.
	right, behind, err := x.restart(ctx, fleet, func() (err error) {
		before, err = relayReads(ctx, relay)
		return err
	})
	fleet.Close()
	if err != nil {
		return err
	}
	after, err := relayReads(ctx, relay)
	if err != nil {
		return err
	}
	all, err := x.lists(ctx)
	s.Values["relay-lists"] = after - before
	// At most as many are the informers' as they sent to the relay. The rest are pages that the relay
	// reads, to compare histories or to learn how new upstream is.
	rest := all - s.Values["relay-lists"]
	s.Values["client-lists"] = min(rest, float64(fleet.Lists.Load()))
	s.Values["relay-pages"] = rest - s.Values["client-lists"]
	s.Values["right"] = right.Seconds()
	s.Values["watches-ended"] = float64(fleet.Watches.Load() - watches)
	if n := fleet.Lists.Load(); n > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("%s: informers listed %d times at the relay, %d of their watches expired",
				x.Program.Name, n, fleet.Expired.Load()))
	}
	if behind > 0 || fleet.Wrong() > 0 {
		err = errors.Join(err,
			fmt.Errorf("of %d informers of the relay %d are not right, and %d events came again or out of order",
				x.Scale.Informers, behind, fleet.Wrong()))
	}
	return err
}

// ofUpstream is the restart without a relay.
func (x *restarts) ofUpstream(ctx context.Context, s *Sample) error {
	n := max(x.Scale.Informers/aloneShare, 1)
	target, err := x.front.Target(x.Server)
	if err != nil {
		return err
	}
	fleet, err := load.OpenFleet(ctx, target, x.collection(), n, x.Scale.Objects)
	if err != nil {
		return err
	}
	right, behind, err := x.restart(ctx, fleet, func() error { return nil })
	fleet.Close()
	if err != nil {
		return err
	}
	all, err := x.lists(ctx)
	s.Values["alone-lists"], s.Values["alone-right"] = all/float64(n), right.Seconds()
	if behind > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("%s: %d of %d informers of its own are not right after %v", x.Program.Name, behind, n, rightWithin))
	}
	return err
}

// restart cuts the server off, changes objects, starts it again and lets clients reach it. It
// returns how long after that all informers were right, and how many were not.
func (x *restarts) restart(ctx context.Context, fleet *load.Fleet, prepare func() error) (time.Duration, int, error) {
	if err := x.rewriteSome(ctx); err != nil {
		return 0, 0, err
	}
	if behind := fleet.Right(ctx, x.written, rightWithin); behind > 0 {
		return 0, behind, errors.New("informers did not get the changes before the restart")
	}
	if err := prepare(); err != nil {
		return 0, 0, err
	}
	x.front.Cut()
	if err := x.rewriteSome(ctx); err != nil {
		return 0, 0, err
	}
	if err := x.Stop(); err != nil {
		return 0, 0, err
	}
	next, err := x.Program.Start(ctx, filepath.Clean(x.dir))
	if err != nil {
		return 0, 0, err
	}
	x.Server = next
	if err := x.front.Point(ctx, next); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	behind := fleet.Right(ctx, x.written, rightWithin)
	return time.Since(began), behind, nil
}

// rewriteSome changes some objects.
func (x *restarts) rewriteSome(ctx context.Context) error {
	some := x.all[:min(outageWrites, len(x.all))]
	x.written += int64(len(some))
	return load.Each(ctx, x.Target, 4, some, (*load.Writer).Update)
}
