package gc

import (
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// waiting is what an object under deletion waits for.
type waiting uint8

const (
	waitsForNothing waiting = iota
	// waitsForDeletion: until no dependent blocks it (foregroundDeletion).
	waitsForDeletion
	// waitsForOrphans: until no object names it as its owner (orphan).
	waitsForOrphans
)

// finalizer is what keeps an object that waits.
func (w waiting) finalizer() string {
	switch w {
	case waitsForDeletion:
		return metav1.FinalizerDeleteDependents
	case waitsForOrphans:
		return metav1.FinalizerOrphanDependents
	case waitsForNothing:
	}
	return ""
}

// vertex is an object with owners, an object under deletion that waits, or what references
// name as an owner, which may not exist. graph.mu guards it.
type vertex struct {
	uid types.UID
	// gr and key are set if placed: the object was seen, and has owners or waits.
	gr     unique.Handle[kinds.GroupResource]
	key    wire.Key
	placed bool
	gone   bool // it was seen to be deleted
	waits  waiting
	// told says that the dependents were queued since it was deleted, or began to wait.
	told     bool
	reported bool // an Event about its owners was created
	turn     turn
	failures uint8
	// absent is the reference that was read last for this owner and found nothing.
	absent *reference

	owners     []edge // not changed, but replaced
	dependents *edge  // a list of edges of other vertices
	count      int    // its length
	blocking   int    // how many of them block
}

// edge is a reference from a dependent to its owner.
type edge struct {
	owner, dependent *vertex
	blocks           bool // blockOwnerDeletion
	prev, next       *edge
}

// reference is how a dependent names an owner; the namespace is its own.
type reference struct{ apiVersion, kind, namespace, name string }

// graph is all vertices, and the queue of those to handle.
type graph struct {
	wake chan struct{} // holds tokens: there may be something to take

	// mu guards the fields below, and all vertices and edges.
	mu       sync.Mutex
	vertices map[types.UID]*vertex
	edges    int
	// working says that workers run. Without them nothing is queued, since the queue would grow with
	// every change, and keep what was deleted since.
	working bool
	queue   fifo
	later   schedule
	// parked are the vertices that name an owner of an unknown kind.
	parked map[*vertex]struct{}
	// due holds one token: later has another first element.
	due chan struct{}
}

func newGraph() graph {
	return graph{
		wake: make(chan struct{}, workers), due: make(chan struct{}, 1),
		vertices: map[types.UID]*vertex{}, parked: map[*vertex]struct{}{},
	}
}

// vertexLocked returns the vertex of an object, and makes it when it is missing.
func (g *graph) vertexLocked(uid types.UID) *vertex {
	v := g.vertices[uid]
	if v == nil {
		v = &vertex{uid: uid}
		g.vertices[uid] = v
	}
	return v
}

// set takes over what an object says about its owners and about what it waits for.
func (g *graph) set(gr kinds.GroupResource, o *wire.Object, refs []metav1.OwnerReference, waits waiting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.vertices[o.UID()]
	if v == nil {
		if len(refs) == 0 && waits == waitsForNothing {
			return
		}
		v = g.vertexLocked(o.UID())
	}
	v.gr, v.key, v.placed = unique.Make(gr), o.Key(), true
	if waits != v.waits {
		v.waits, v.told = waits, false
	}
	g.relinkLocked(v, refs)
	if len(refs) > 0 || waits != waitsForNothing {
		g.enqueueLocked(v)
	}
	g.dropLocked(v)
}

// relinkLocked replaces the owners of a vertex. New edges come before old ones go, so that
// an owner that stays is not taken for free in between.
func (g *graph) relinkLocked(v *vertex, refs []metav1.OwnerReference) {
	old := v.owners
	v.owners = nil
	if len(refs) > 0 {
		v.owners = make([]edge, len(refs))
	}
	for i, ref := range refs {
		e := &v.owners[i]
		e.owner, e.dependent = g.vertexLocked(ref.UID), v
		e.blocks = ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		if e.next = e.owner.dependents; e.next != nil {
			e.next.prev = e
		}
		e.owner.dependents = e
		e.owner.count++
		if e.blocks {
			e.owner.blocking++
		}
	}
	g.edges += len(refs) - len(old)
	for i := range old {
		g.unlinkLocked(&old[i])
	}
}

// unlinkLocked removes an edge, and queues the owner if it has waited for that.
func (g *graph) unlinkLocked(e *edge) {
	owner := e.owner
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		owner.dependents = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	owner.count--
	if e.blocks {
		owner.blocking--
	}
	if owner.waits == waitsForDeletion && owner.blocking == 0 || owner.waits == waitsForOrphans && owner.count == 0 {
		g.enqueueLocked(owner)
	}
	g.dropLocked(owner)
}

// remove takes over that an object was deleted.
func (g *graph) remove(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.vertices[uid]
	if v == nil {
		return
	}
	v.gone, v.told, v.waits = true, false, waitsForNothing
	g.relinkLocked(v, nil)
	if v.count > 0 {
		g.enqueueLocked(v)
	}
	g.dropLocked(v)
}

// forget removes the objects of a resource that is not served any more. It does not know
// whether they exist.
func (g *graph) forget(gr kinds.GroupResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := unique.Make(gr)
	for _, v := range g.vertices {
		if v.placed && v.gr == of {
			v.placed, v.waits = false, waitsForNothing
			g.relinkLocked(v, nil)
			g.dropLocked(v)
		}
	}
}

// dropLocked removes a vertex that says nothing any more.
func (g *graph) dropLocked(v *vertex) {
	if len(v.owners) == 0 && v.count == 0 && v.waits == waitsForNothing && v.turn == idle {
		delete(g.vertices, v.uid)
		delete(g.parked, v)
	}
}

// view is what a worker needs to know of a vertex.
type view struct {
	gr       kinds.GroupResource
	key      wire.Key
	placed   bool
	gone     bool
	waits    waiting
	tell     bool // its dependents are to be queued
	free     bool // it has no dependent that it waits for
	parent   bool // it has dependents
	reported bool
	// orphaned are the owners that wait for this vertex to be no dependent of theirs.
	orphaned []types.UID
}

// look returns the view of a vertex.
func (g *graph) look(v *vertex) view {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := view{
		key: v.key, placed: v.placed, gone: v.gone, waits: v.waits, parent: v.count > 0, reported: v.reported,
		tell: !v.told && (v.gone || v.waits != waitsForNothing),
		free: v.waits == waitsForDeletion && v.blocking == 0 || v.waits == waitsForOrphans && v.count == 0,
	}
	if v.placed {
		l.gr = v.gr.Value()
	}
	for i := range v.owners {
		if owner := v.owners[i].owner; owner.waits == waitsForOrphans {
			l.orphaned = append(l.orphaned, owner.uid)
		}
	}
	return l
}

// tellDependents queues the dependents of a vertex.
func (g *graph) tellDependents(v *vertex) {
	g.mu.Lock()
	v.told = true
	all := make([]*vertex, 0, v.count)
	for e := v.dependents; e != nil; e = e.next {
		all = append(all, e.dependent)
	}
	g.mu.Unlock()
	g.enqueueAll(all)
}

// maxCircle bounds the edges that inCircle looks at: it holds the lock.
const maxCircle = 10_000

// inCircle reports whether a vertex that waits for its dependents blocks, through owners
// that wait as well, its own deletion.
func (g *graph) inCircle(v *vertex) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := map[*vertex]bool{}
	next, looked := []*vertex{v}, 0
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for i := range at.owners {
			e := &at.owners[i]
			if looked++; looked > maxCircle {
				return false
			}
			if !e.blocks || e.owner.waits != waitsForDeletion || seen[e.owner] {
				continue
			}
			if e.owner == v {
				return true
			}
			seen[e.owner] = true
			next = append(next, e.owner)
		}
	}
	return false
}

// known is what the graph knows about an owner that a reference names.
type known struct{ gone, absent bool }

// owner returns what is known about an owner: that it was deleted, or that the same
// reference was read before, and there was nothing.
func (g *graph) owner(uid types.UID, ref reference) known {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.vertices[uid]
	if v == nil {
		return known{}
	}
	return known{gone: v.gone, absent: v.absent != nil && *v.absent == ref}
}

// noteAbsent keeps that a reference leads to nothing. No later object has its uid.
func (g *graph) noteAbsent(uid types.UID, ref reference) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.vertices[uid]; v != nil {
		v.absent = &ref
	}
}

// noteReported keeps that an Event about a vertex was created.
func (g *graph) noteReported(v *vertex) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v.reported = true
}

func (g *graph) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{
		Objects: len(g.vertices), References: g.edges, Pending: g.queue.Len(), Failed: len(g.later), Unknown: len(g.parked),
	}
}
