package listwatchtest

import (
	"slices"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// Copy is a copy of a server's data; see [Server.Save].
type Copy struct {
	epoch       epoch
	uids, floor int
}

// Save returns a copy of the data, like a backup.
func (s *Server) Save() Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked()
	return Copy{uids: s.uids, floor: s.floor, epoch: epoch{
		fork: now.rv(), first: now.first, states: slices.Clone(now.states), log: slices.Clone(now.log),
	}}
}

// Restore replaces the data by a copy and cuts all watches, as if the server had been
// stopped, restored and started.
func (s *Server) Restore(from Copy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := from.epoch
	e.states, e.log = slices.Clone(e.states), slices.Clone(e.log)
	s.epochs = append(s.epochs, &e)
	s.uids, s.floor = from.uids, from.floor
	s.restartLocked()
}

// Object is an object for Reset.
type Object struct {
	Key   types.NamespacedName
	UID   types.UID
	RV    int
	Value any
}

// Reset replaces the data by these objects, at resource version rv with everything before
// compacted. Open watches continue.
func (s *Server) Reset(rv int, objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := new(btree.Map[string, *Version])
	for _, o := range objects {
		state.Set(o.Key.String(), s.renderLocked(Version{Key: o.Key, UID: o.UID, RV: o.RV, Value: o.Value}))
	}
	s.epochs = append(s.epochs, &epoch{first: rv, states: []State{state}})
	s.floor = rv
	s.wakeLocked()
}

// Rollback restores the state of back resource versions ago, which must exist. Open
// watches continue.
func (s *Server) Rollback(back int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rollbackLocked(back)
	s.wakeLocked()
}

func (s *Server) rollbackLocked(back int) (fork int) {
	old := s.nowLocked()
	fork = old.rv() - back
	s.epochs = append(s.epochs, &epoch{
		fork: fork, first: old.first, states: slices.Clone(old.states[:len(old.states)-back]),
		log: slices.Clone(old.log[:len(old.log)-len(old.after(fork))]),
	})
	s.floor = min(s.floor, fork)
	return fork
}

// Rewind is the argument of [Server.Rewind].
type Rewind struct {
	Back    int // how many resource versions are lost
	Beyond  int // the new history starts that many after the lost one; 0: resource versions are reused
	Refused int // how many requests are refused before the server is back
}

// Rewind restarts the server with an older history, as from a backup. It does nothing if
// there are not that many resource versions.
func (s *Server) Rewind(r Rewind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.nowLocked().rv()
	if len(s.nowLocked().states) <= r.Back {
		return
	}
	fork := s.rollbackLocked(r.Back)
	for now := s.nowLocked(); r.Beyond > 0 && now.rv() < lost+r.Beyond; {
		now.next(func(State) {})
	}
	s.down = r.Refused
	s.logf("rewind to %d", fork)
	s.restartLocked()
}

// Restart cuts all watches.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("restart")
	s.restartLocked()
}

func (s *Server) restartLocked() {
	s.boot++
	s.wakeLocked()
}

// sharedLocked returns the last resource version that an epoch shares with the current one.
func (s *Server) sharedLocked(epoch int) int {
	rv := s.nowLocked().rv()
	for _, e := range s.epochs[epoch+1:] {
		rv = min(rv, e.fork)
	}
	return rv
}
