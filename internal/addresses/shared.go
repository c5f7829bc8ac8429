package addresses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"

	"github.com/gapless-io/gapless/internal/wire"
)

// Shared is where the node ports of a cluster are registered that several servers use: the value of one key, which
// changes by compare-and-swap.
type Shared struct {
	// Read returns the value and its revision; 0: there is none. Write replaces the value at a revision, or creates it
	// at 0; ErrMoved: it has another revision by now. Their other errors are for the client.
	Read  func(ctx context.Context) (value []byte, revision int64, err error)
	Write func(ctx context.Context, value []byte, revision int64) error
	// Range is that of ports which this server registers them in; nil: that in which they are, or Default.
	Range   *net.PortRange
	Default net.PortRange
}

// ErrMoved says that a value was not replaced because there is another one.
var ErrMoved = errors.New("the value has changed meanwhile")

// magic begins a value in protobuf.
const magic = "k8s\x00"

// registered is an object RangeAllocation: a bit for each port of a range.
type registered struct {
	in   portRange
	bits *big.Int
}

func (r registered) has(port int) bool { return r.bits.Bit(port-r.in.Base) == 1 }

func (r registered) set(port int, bit uint) { r.bits.SetBit(r.bits, port-r.in.Base, bit) }

// decodeRegistered reads a stored RangeAllocation, in protobuf or JSON.
func decodeRegistered(value []byte) (registered, error) {
	var o corev1.RangeAllocation
	var err error
	if message, is := bytes.CutPrefix(value, []byte(magic)); is {
		var whole runtime.Unknown
		if err = whole.Unmarshal(message); err == nil {
			err = o.Unmarshal(whole.Raw)
		}
	} else {
		err = json.Unmarshal(value, &o)
	}
	if err != nil {
		return registered{}, fmt.Errorf("read the RangeAllocation: %w", err)
	}
	in, err := net.ParsePortRange(o.Range)
	if err != nil {
		return registered{}, fmt.Errorf("read the RangeAllocation: %w", err)
	}
	const most = 1 << 16 / 8
	if len(o.Data) > most {
		return registered{}, fmt.Errorf("read the RangeAllocation: %d bytes of data, want at most %d", len(o.Data), most)
	}
	return registered{in: portRange(*in), bits: new(big.Int).SetBytes(o.Data)}, nil
}

// encode returns what kube-apiserver would store.
func (r registered) encode() ([]byte, error) {
	o := corev1.RangeAllocation{Range: r.in.String(), Data: r.bits.Bytes()}
	message, err := o.Marshal()
	if err != nil {
		return nil, wire.Internal(err)
	}
	whole, err := (&runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}, Raw: message,
	}).Marshal()
	if err != nil {
		return nil, wire.Internal(err)
	}
	return append([]byte(magic), whole...), nil
}

// sharedPorts is the node ports in a Shared.
type sharedPorts struct {
	*Shared

	allocator *Allocator
	turn      chan struct{} // of one: so that writes here do not conflict with each other
	leaks     map[int]int   // how many more passes of the repair must find a port unused; with turn
}

var _ Ports = (*sharedPorts)(nil)

func newSharedPorts(in *Shared, a *Allocator) *sharedPorts {
	return &sharedPorts{Shared: in, allocator: a, turn: make(chan struct{}, 1), leaks: map[int]int{}}
}

// errUnchanged ends a change that has nothing to write.
var errUnchanged = errors.New("nothing has to change")

// change changes what is registered, until nobody else was faster.
func (p *sharedPorts) change(ctx context.Context, do func(r *registered) error) error {
	end, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer end()
	for {
		r, revision, err := p.read(ctx)
		if err != nil {
			return err
		}
		if revision == 0 { // nobody has registered anything
			if err = p.rebuild(ctx, r, revision); err == nil || errors.Is(err, ErrMoved) {
				continue
			}
			return err
		}
		if err := do(&r); err != nil {
			return err
		}
		value, err := r.encode()
		if err != nil {
			return err
		}
		if err = p.write(ctx, value, revision); !errors.Is(err, ErrMoved) {
			return err
		}
	}
}

// write writes what is registered, also for a client that leaves meanwhile.
func (p *sharedPorts) write(ctx context.Context, value []byte, revision int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	lasting, cancel := outlast(ctx)
	defer cancel()
	return p.Write(lasting, value, revision)
}

// read returns what is registered.
func (p *sharedPorts) read(ctx context.Context) (registered, int64, error) {
	value, revision, err := p.Read(ctx)
	if err != nil {
		return registered{}, 0, err
	}
	if revision == 0 {
		in := p.Default
		if p.Range != nil {
			in = *p.Range
		}
		return registered{in: portRange(in), bits: new(big.Int)}, 0, nil
	}
	r, err := decodeRegistered(value)
	if err != nil {
		return r, 0, wire.Internal(err)
	}
	if p.Range != nil && r.in != portRange(*p.Range) {
		return r, 0, wire.Internal(fmt.Errorf("the node ports of this server (--service-node-port-range %s) are not those that "+
			"are registered, %s: give all servers the same", portRange(*p.Range), r.in))
	}
	return r, revision, nil
}

// Allocate implements Ports.
func (p *sharedPorts) Allocate(ctx context.Context, port int) error {
	return p.change(ctx, func(r *registered) error {
		switch {
		case !r.in.has(port):
			return r.in.outOfRange()
		case r.has(port):
			return errPortsTaken
		}
		r.set(port, 1)
		return nil
	})
}

// Next implements Ports.
func (p *sharedPorts) Next(ctx context.Context) (port int, err error) {
	err = p.change(ctx, func(r *registered) error {
		var ok bool
		if port, ok = r.in.free(r.has); !ok {
			return errFull
		}
		r.set(port, 1)
		return nil
	})
	return port, err
}

// Has implements Ports.
func (p *sharedPorts) Has(ctx context.Context, port int) (bool, error) {
	r, _, err := p.read(ctx)
	return err == nil && r.in.has(port) && r.has(port), err
}

// Undo implements Ports.
func (p *sharedPorts) Undo(ctx context.Context, ports []int) { p.Free(ctx, ports) }

// Done implements Ports.
func (*sharedPorts) Done([]int) {}

// Doubt implements Ports: the repair finds out.
func (*sharedPorts) Doubt([]int) {}

// releaseFor bounds how long it is tried to give ports back; the repair finds what is not.
const releaseFor = 10 * time.Second

// Free implements Ports.
func (p *sharedPorts) Free(ctx context.Context, ports []int) {
	if len(ports) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseFor)
	defer cancel()
	err := p.change(ctx, func(r *registered) error {
		changed := false
		for _, port := range ports {
			if r.in.has(port) && r.has(port) {
				r.set(port, 0)
				changed = true
			}
		}
		if !changed {
			return errUnchanged
		}
		return nil
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		p.allocator.logger.LogAttrs(ctx, slog.LevelWarn, "node ports were not released; they will be later",
			slog.Any("ports", ports), slog.Any("err", err))
	}
}

// passes is how many passes of the repair must find a port unused before it is given back: it may be that of a Service
// which is being written (upstream's numRepairsBeforeLeakCleanup).
const passes = 3

// repairTries is how often a pass tries again when others were faster: writes of Services wait for it.
const repairTries = 5

// repair brings what is registered in line with the Services.
func (p *sharedPorts) repair(ctx context.Context) error {
	end, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer end()
	for range repairTries {
		value, revision, err := p.Read(ctx)
		if err != nil {
			return err
		}
		r := registered{in: portRange(p.Default), bits: new(big.Int)}
		if revision != 0 {
			if r, err = decodeRegistered(value); err != nil {
				return err
			}
		}
		if err = p.rebuild(ctx, r, revision); !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("register the node ports: %w, %d times", ErrMoved, repairTries)
}

// enter blocks until it is the caller's turn, and returns what ends it. Errors: ctx's cause.
func (p *sharedPorts) enter(ctx context.Context) (end func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// rebuild writes what the Services have, and what was registered and may be of one that is being written, in place of
// was. It has the turn. Errors: ErrMoved, those of the store.
func (p *sharedPorts) rebuild(ctx context.Context, was registered, revision int64) error {
	a := p.allocator
	if err := a.verbs.Fresh(ctx, servicesResource()); err != nil { // after was has been read
		return err
	}
	unread := a.verbs.Unread(servicesResource(), wire.Key{})
	if revision == 0 && unread != nil {
		return unread // its ports are registered nowhere
	}
	in := was.in
	if p.Range != nil {
		in = portRange(*p.Range)
	}
	now := registered{in: in, bits: new(big.Int)}
	used := a.usedPorts()
	for port := range used {
		if in.has(port) {
			now.set(port, 1)
		}
	}
	left := map[int]int{}
	for port := was.in.Base; port < was.in.Base+was.in.Size; port++ {
		if !was.has(port) || used[port] || !in.has(port) {
			continue
		}
		n, known := p.leaks[port]
		if !known {
			n = passes
		}
		if n--; n > 0 || unread != nil { // of a Service that cannot be read
			left[port] = max(n, 1)
			now.set(port, 1)
			continue
		}
		a.logger.LogAttrs(ctx, slog.LevelWarn, "a node port that no Service has is released", slog.Int("port", port))
	}
	if revision != 0 && now.in == was.in && now.bits.Cmp(was.bits) == 0 {
		p.leaks = left
		return nil
	}
	value, err := now.encode()
	if err == nil {
		err = p.Write(ctx, value, revision)
	}
	if err == nil {
		p.leaks = left
	}
	return err
}

// usedPorts are the node ports of the stored Services.
func (s *state) usedPorts() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	used := make(map[int]bool, len(s.ports))
	for port := range s.ports {
		used[port] = true
	}
	return used
}
