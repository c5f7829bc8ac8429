// Package listwatchtest is a list-watch server for tests of clients: one collection of
// objects with its history, and the failures that a test asks for.
//
// A [Server] holds objects and every [Version] that they had; tests put and delete objects,
// compact the history, and restore older copies of the data. A [Request] is a LIST or WATCH
// that the server got. A [Fault] describes how the server answers one request: with an error,
// late, incomplete, or in an unusual but valid way. A rule (see [Server.Fail]) chooses the
// fault of each request, [Random] at random.
//
// There are three ways to read a Server. It is an http.Handler, with JSON or Kubernetes'
// protobuf encoding, for a real socket or, with [Config], for a rest.Config without one.
// [Over] returns a [Wire], which reads a handler with this module's client. A [View] reads
// a Server without any encoding. All but the socket work in virtual time (testing/synctest).
// A [Script] is not a Server: the test writes each answer itself.
package listwatchtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/btree"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// Version is one state of one object.
type Version struct {
	Key   types.NamespacedName
	UID   types.UID
	RV    int
	Value any    // the argument of Put
	Raw   []byte // the object's JSON
}

// Change is one event of the history. A deletion has the object's last state with the
// resource version of the deletion.
type Change struct {
	Type    kube.EventType
	RV      int
	Version *Version
}

// State is the objects at one resource version, in the order of their keys.
type State = *btree.Map[string, *Version]

// Server is a list-watch server of one collection; [New] returns one. Set its exported
// fields before the first request. Its methods are safe for concurrent use.
type Server struct {
	// Render returns an object's JSON; nil means RenderThing.
	Render func(Version) []byte
	// UID returns the UID of the nth object; nil means u1, u2 and so on.
	UID func(n int) types.UID
	// BookmarkEvery is the time between two bookmarks of a watch; 0 means a minute.
	BookmarkEvery time.Duration
	// DeletionKeepsRV makes deletions have the resource version of the last state.
	DeletionKeepsRV bool
	// SilentAhead makes the server send nothing, not even bookmarks, to a watch from a
	// resource version that it has not reached, as kube-apiserver does.
	SilentAhead bool
	// RefuseLost makes the server answer 410 to a View whose [Position] is in a history that
	// was replaced. A server behaves so if it was restored from a backup with a higher
	// revision and everything before marked as compacted.
	RefuseLost bool
	// Kind is the kind of the objects, in version v1; "" means Thing.
	Kind string
	// Scheme has the type of Kind. With it the server writes objects with upstream's
	// serializers, in JSON or protobuf; nil means the JSON of Render.
	Scheme *runtime.Scheme
	// ServesMetadata makes the server answer requests for PartialObjectMetadata with it;
	// otherwise they get whole objects.
	ServesMetadata bool
	// Log gets a line for each request and change; nil means no log.
	Log func(format string, args ...any)

	// ruleMu is held while a rule is called, which may take mu.
	ruleMu sync.Mutex

	// mu guards all below.
	mu       sync.Mutex
	epochs   []*epoch // the last one is current
	floor    int      // watches from a lower resource version get a 410
	uids     int
	boot     int // number of restarts; streams from before the last one are cut
	wake     chan struct{}
	bookmark int   // raised when a bookmark is due in every stream
	ended    int   // raised when every stream ends with ending
	ending   error // a Status
	healed   bool
	down     int // how many of the next requests are refused
	fault    func(Request) Fault
	requests []Request
	open     int
}

// epoch is a history. Restoring a server begins a new one.
type epoch struct {
	fork   int // the last resource version that it shares with the epoch before
	first  int // the resource version of states[0]
	states []State
	log    []Change
}

func (e *epoch) rv() int { return e.first + len(e.states) - 1 }

func (e *epoch) at(rv int) State { return e.states[min(max(rv-e.first, 0), len(e.states)-1)] }

func (e *epoch) now() State { return e.states[len(e.states)-1] }

// next appends a state.
func (e *epoch) next(change func(State)) {
	s := e.now().Copy()
	change(s)
	e.states = append(e.states, s)
}

// after returns the changes after a resource version.
func (e *epoch) after(rv int) []Change {
	i, _ := slices.BinarySearchFunc(e.log, rv+1, func(c Change, rv int) int { return cmp.Compare(c.RV, rv) })
	return e.log[i:]
}

// New returns a server without objects at resource version 1000. Everything before is
// compacted.
func New() *Server {
	s := &Server{wake: make(chan struct{}), floor: 1000}
	s.epochs = []*epoch{{first: 1000, states: []State{new(btree.Map[string, *Version])}}}
	return s
}

// SpreadUID is a function for Server.UID whose UIDs are spread over all shards.
func SpreadUID(n int) types.UID { return types.UID(strconv.Itoa(n) + "-4b1d-4f6a-9c3e-7d5200aa91f8") }

// Default returns the key of a name in the namespace "default".
func Default(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// RenderThing returns the JSON of an object of kind Thing whose member "value" is v.Value.
func RenderThing(v Version) []byte {
	value, err := json.Marshal(v.Value)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"Thing","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d"},"value":%s}`,
		v.Key.Name, v.Key.Namespace, v.UID, v.RV, value)
}

func (s *Server) logf(format string, args ...any) {
	if s.Log != nil {
		s.Log(format, args...)
	}
}

func (s *Server) nowLocked() *epoch { return s.epochs[len(s.epochs)-1] }

func (s *Server) wakeLocked() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *Server) renderLocked(v Version) *Version {
	render := s.Render
	if render == nil {
		render = RenderThing
	}
	v.Raw = render(v)
	return &v
}

// Put creates or updates an object in the namespace "default" and returns the new resource
// version. A created object gets a new UID.
func (s *Server) Put(name string, value any) int { return s.PutKey(Default(name), value) }

// PutKey is like Put, for any namespace.
func (s *Server) PutKey(key types.NamespacedName, value any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked()
	v, change := Version{Key: key, RV: now.rv() + 1, Value: value}, kube.Added
	if old, found := now.now().Get(key.String()); found {
		v.UID, change = old.UID, kube.Modified
	} else {
		s.uids++
		v.UID = types.UID("u" + strconv.Itoa(s.uids))
		if s.UID != nil {
			v.UID = s.UID(s.uids)
		}
	}
	made := s.renderLocked(v)
	now.next(func(state State) { state.Set(key.String(), made) })
	now.log = append(now.log, Change{change, v.RV, made})
	s.logf("put %v %s rv=%d value=%v", v.Key, v.UID, v.RV, value)
	s.wakeLocked()
	return v.RV
}

// Delete deletes an object in the namespace "default", if there is one.
func (s *Server) Delete(name string) { s.DeleteKey(Default(name)) }

// DeleteKey is like Delete, for any namespace.
func (s *Server) DeleteKey(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, found := s.nowLocked().now().Get(key.String()); found {
		s.deleteLocked(old, old.Value)
	}
}

// DeleteWith is like Delete; value replaces the value in the object's last state.
func (s *Server) DeleteWith(name string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, found := s.nowLocked().now().Get(Default(name).String()); found {
		s.deleteLocked(old, value)
	}
}

func (s *Server) deleteLocked(old *Version, value any) {
	now := s.nowLocked()
	rv, last := now.rv()+1, *old
	if !s.DeletionKeepsRV {
		last.RV = rv
	}
	last.Value = value
	made := s.renderLocked(last)
	now.next(func(state State) { state.Delete(old.Key.String()) })
	now.log = append(now.log, Change{kube.Deleted, rv, made})
	s.logf("delete %v %s rv=%d", old.Key, old.UID, rv)
	s.wakeLocked()
}

// Tick increases the resource version without a change of this collection.
func (s *Server) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nowLocked().next(func(State) {})
	s.wakeLocked()
}

// Compact drops the history except for the last keep resource versions.
func (s *Server) Compact(keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, s.nowLocked().rv()-keep)
	s.logf("compact %d", s.floor)
}

// Bookmark sends a bookmark to every open watch.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmark++
	s.wakeLocked()
}

// EndWatches ends every open watch with an ERROR event.
func (s *Server) EndWatches(status metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	s.ending = statusError(status)
	s.wakeLocked()
}

// Fail sets the rule that chooses the fault of each request; nil means no faults. Calls of
// rule do not overlap.
func (s *Server) Fail(rule func(Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = rule
}

// Faults returns a rule for Fail: the first requests get these faults, all others none.
func Faults(faults ...Fault) func(Request) Fault {
	return func(Request) Fault {
		if len(faults) == 0 {
			return Fault{}
		}
		f := faults[0]
		faults = faults[1:]
		return f
	}
}

// Heal removes the rule of Fail, and the delay of open streams with Fault.Behind.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healed = true
	s.logf("healed")
}

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Open returns the number of open watches.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// RV returns the current resource version.
func (s *Server) RV() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nowLocked().rv()
}

// Objects returns all objects, in the order of their keys.
func (s *Server) Objects() []*Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nowLocked().now().Values()
}

// ObjectsAt returns the objects at a resource version of an epoch: 0 is the server's first
// history, and each restore begins the next. It returns false if that epoch never had the
// resource version.
func (s *Server) ObjectsAt(epoch, rv int) ([]*Version, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.epochs[epoch]
	if rv < e.first || rv > e.rv() {
		return nil, false
	}
	return e.at(rv).Values(), true
}
