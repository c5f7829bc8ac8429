package clientgo_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/clientgo"
)

var (
	seed  = flag.Uint64("seed", 0, "replay one seed of TestRandomScripts (0: all)")
	seeds = flag.Uint64("seeds", 200, "how many seeds TestRandomScripts plays")
)

// TestRandomScripts runs random scripts against client-go's informer and ours and compares
// the calls per key. asOurs first removes three intended differences from client-go's
// calls: unchanged objects, repeated events, and objects that replaced others of the same
// name.
func TestRandomScripts(t *testing.T) {
	first, last := uint64(1), *seeds
	if testing.Short() {
		last = min(last, 50)
	}
	if *seed != 0 {
		first, last = *seed, *seed
	}
	played, unlike := 0, 0
	for n := first; n <= last; n++ {
		ok := t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, differ := playSeed(t, rand.New(rand.NewPCG(n, 4)))
				played += calls
				unlike += differ
			})
		})
		if !ok {
			t.Fatalf("replay with -run TestRandomScripts -seed %d", n)
		}
	}
	t.Logf("%d calls of client-go's, %d of them ours do not have", played, unlike)
}

// playSeed returns how many calls client-go's handlers had, and how many of them
// asOurs took out.
func playSeed(t *testing.T, rng *rand.Rand) (played, unlike int) {
	t.Helper()
	w := newFakeServer()
	w.noStreams = rng.IntN(2) == 0
	for range rng.IntN(10) {
		change(w, rng)
	}
	// Every: events that come together would be merged.
	p := newPair(t, w, 0, clientgo.Handlers(informer.Every(1000, informer.Block)))
	there := map[string]bool{}
	check := func(what string) {
		t.Helper()
		after(2 * time.Minute) // client-go's pauses last up to one
		theirs, ours := p.theirLog.calls(), p.ourLog.calls()
		for key, lines := range theirs {
			played += len(lines)
			if theirs[key] = asOurs(there, key, lines); len(theirs[key]) == 0 {
				delete(theirs, key)
			}
			unlike += len(lines) - len(theirs[key])
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s: the calls (-client-go, as ours +ours):\n%s", what, diff)
		}
		if diff := cmp.Diff(contents(p.theirs), contents(p.ours)); diff != "" {
			t.Errorf("%s: the stores (-client-go +ours):\n%s", what, diff)
		}
	}
	run(t, func() {
		check("the beginning")
		for range 30 {
			check(act(w, rng))
		}
	}, p.theirs, p.ours)
	return played, unlike
}

func change(w *fakeServer, rng *rand.Rand) {
	name := fmt.Sprint("o", rng.IntN(8))
	if rng.IntN(3) == 0 {
		w.delete(name)
		return
	}
	w.put(name, fmt.Sprint(rng.IntN(1000)))
}

// act does something to the fakeServer, and says what.
func act(w *fakeServer, rng *rand.Rand) string {
	change(w, rng)
	after(time.Second)
	unseen := func() {
		for range rng.IntN(10) {
			change(w, rng)
		}
	}
	switch rng.IntN(8) {
	case 0:
		w.cut()
		return "cut"
	case 1:
		w.end()
		return "ended"
	case 2:
		w.bookmark()
		return "a bookmark"
	case 3:
		w.repeat(0)
		return "the last event again"
	case 4:
		w.forget()
		return "410 while connected"
	case 5:
		w.leave()
		unseen()
		w.comeBack()
		after(3 * time.Minute)
		return "away"
	case 6:
		relist(w, unseen)
		return "410 after an absence"
	}
	return "a change"
}

// asOurs is what we say instead of what client-go says of one key. there are the keys
// that handlers know.
func asOurs(there map[string]bool, key string, lines []string) []string {
	var all []string
	for _, line := range lines {
		f := strings.Fields(line)
		was := there[key]
		there[key] = f[0] != "delete" && f[0] != "lost"
		if !was && !there[key] {
			continue // a deletion that is sent twice
		}
		if f[0] != "update" {
			all = append(all, line)
			continue
		}
		from, to := f[1], f[2]
		oldUID, _, _ := strings.Cut(from, "@")
		newUID, _, _ := strings.Cut(to, "@")
		switch {
		case from == to:
		case oldUID != newUID:
			all = append(all, "lost "+key+" "+from, "add "+to)
		default:
			all = append(all, line)
		}
	}
	return all
}
