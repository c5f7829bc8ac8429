package nodes

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/wire"
)

// nodeName is the field that says on which node something is.
const nodeName = "spec.nodeName"

// graph knows which pods are on which node, and what they need. Changes are only noted: the pods of a node are decoded
// when the node next asks, and volumes when a node next asks for a secret that none of its pods names.
type graph struct {
	bound bound
	// mu guards what follows. It is never held for long: writers wait for it.
	mu      sync.Mutex
	where   map[wire.Key]string // the nodes of pods that have one
	nodes   map[string]*node    // those that have pods
	volumes map[string]*wire.Object
	asked   bool // whether volumes were ever taken: before that a deleted one needs no note
}

// node is what the pods of a node need.
type node struct {
	// Of graph.mu.
	count   int                       // of its pods
	asked   bool                      // whether changed was ever taken: before that a deleted pod needs no note
	changed map[wire.Key]*wire.Object // pods that were not decoded yet; nil: deleted

	// mu guards what follows. It is locked before bound.mu, and that before graph.mu.
	mu    sync.Mutex
	pods  map[wire.Key][]need
	needs map[need]int // how many pods need it
	// claims are those of needs.
	claims map[wire.Key]struct{}
}

// need is an object that a pod needs.
type need struct {
	resource schema.GroupResource
	key      wire.Key
}

func newGraph() *graph {
	return &graph{
		bound: newBound(), where: map[wire.Key]string{}, nodes: map[string]*node{}, volumes: map[string]*wire.Object{},
	}
}

// Follows implements registry.Follower.
func (*Authorizer) Follows() []schema.GroupResource { return []schema.GroupResource{pods, volumes} }

// Replace implements registry.Follower. It is called before there are changes.
func (a *Authorizer) Replace(gr schema.GroupResource, objects []*wire.Object) {
	for _, o := range objects {
		a.Change(gr, o, false)
	}
}

// Change implements registry.Follower. It decodes nothing.
func (a *Authorizer) Change(gr schema.GroupResource, o *wire.Object, deleted bool) {
	g, key, on := a.graph, o.Key(), o.Fields().Get(nodeName)
	if deleted {
		o, on = nil, ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr == volumes {
		if g.volumes[key.Name] = o; deleted && !g.asked {
			delete(g.volumes, key.Name)
		}
		return
	}
	if was, had := g.where[key]; had && was != on {
		g.remove(was, key)
	}
	if on != "" {
		g.put(on, key, o)
	}
}

// put notes a new state of a pod. The caller holds mu.
func (g *graph) put(on string, key wire.Key, o *wire.Object) {
	n := g.nodes[on]
	if n == nil {
		n = &node{
			changed: map[wire.Key]*wire.Object{}, pods: map[wire.Key][]need{}, needs: map[need]int{},
			claims: map[wire.Key]struct{}{},
		}
		g.nodes[on] = n
	}
	if _, had := g.where[key]; !had {
		g.where[key] = on
		n.count++
	}
	n.changed[key] = o
}

// remove notes that a pod is gone. The caller holds mu.
func (g *graph) remove(on string, key wire.Key) {
	delete(g.where, key)
	n := g.nodes[on]
	if n.count--; n.count == 0 {
		delete(g.nodes, on)
		return
	}
	if n.changed[key] = nil; !n.asked {
		delete(n.changed, key) // a kubelet that never asks must not fill the memory
	}
}

// needs reports whether a pod of a node needs an object.
func (g *graph) needs(name string, wanted need) bool {
	g.mu.Lock()
	n := g.nodes[name]
	g.mu.Unlock()
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	g.mu.Lock()
	n.asked = true
	changed := n.changed
	if len(changed) > 0 {
		n.changed = map[wire.Key]*wire.Object{}
	}
	g.mu.Unlock()
	n.apply(changed)
	if n.needs[wanted] > 0 {
		return true
	}
	return wanted.resource == secrets && len(n.claims) > 0 && g.ofVolume(n, wanted.key)
}

// apply decodes pods. The caller holds mu.
func (n *node) apply(changed map[wire.Key]*wire.Object) {
	for key, o := range changed {
		for _, one := range n.pods[key] {
			if n.needs[one]--; n.needs[one] > 0 {
				continue
			}
			delete(n.needs, one)
			if one.resource == claims {
				delete(n.claims, one.key)
			}
		}
		if o == nil {
			delete(n.pods, key)
			continue
		}
		n.pods[key] = needsOf(o)
		for _, one := range n.pods[key] {
			n.needs[one]++
			if one.resource == claims {
				n.claims[one.key] = struct{}{}
			}
		}
	}
}

// ofVolume reports whether a volume that is bound to a claim of the node's pods has a secret. The caller holds n.mu.
func (g *graph) ofVolume(n *node, secret wire.Key) bool {
	g.bound.mu.Lock()
	defer g.bound.mu.Unlock()
	g.mu.Lock()
	g.asked = true
	changed := g.volumes
	if len(changed) > 0 {
		g.volumes = map[string]*wire.Object{}
	}
	g.mu.Unlock()
	g.bound.apply(changed)
	having := g.bound.secrets[secret]
	if len(having) <= len(n.claims) {
		for _, v := range having {
			if _, is := n.claims[v.claim]; is {
				return true
			}
		}
		return false
	}
	for claim := range n.claims {
		for name := range g.bound.claims[claim] {
			if _, is := having[name]; is {
				return true
			}
		}
	}
	return false
}
