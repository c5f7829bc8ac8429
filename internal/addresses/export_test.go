package addresses

import "context"

// What the tests of this package need.
var (
	ServicesResource  = servicesResource
	AddressesResource = addressesResource
	RangesResource    = rangesResource
	ParentOf          = parentOf
)

// Passes is how many passes of the repair find a port unused before it is released.
const Passes = passes

// SharedPorts are the node ports in a Shared.
type SharedPorts = sharedPorts

// SharePorts lets an allocator take node ports from a Shared.
func SharePorts(in *Shared, a *Allocator) *SharedPorts {
	p := newSharedPorts(in, a)
	a.ports = p
	return p
}

// Repair is one pass of the repair.
func (p *sharedPorts) Repair(ctx context.Context) error { return p.repair(ctx) }
