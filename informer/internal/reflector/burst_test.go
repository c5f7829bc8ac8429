package reflector_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer/internal/transition"
)

// TestEventsThatArriveTogetherAreAppliedInOrder: they are decoded concurrently if the source lends them, and then everything
// is as if each had come alone: what is published, what is reported, where the next watch begins.
func TestEventsThatArriveTogetherAreAppliedInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var frames []string
	rv := 10
	for len(frames) < 3000 {
		rv++
		name := "n" + strings.Repeat("x", random.IntN(40)) // few names, many events of each
		switch random.IntN(30) {
		case 0:
			frames = append(frames, fmt.Sprintf("BOOKMARK %d", rv))
		case 1:
			frames = append(frames, fmt.Sprintf("MODIFIED %s@%d!", name, rv)) // cannot be decoded
		case 2:
			frames = append(frames, fmt.Sprintf("MODIFIED %s@%d", name, rv-9)) // stale
		case 3, 4, 5, 6, 7:
			frames = append(frames, fmt.Sprintf("DELETED %s@%d", name, rv))
		case 8, 9:
			frames = append(frames, fmt.Sprintf("ADDED %s@%d", name, rv))
		default:
			frames = append(frames, fmt.Sprintf("MODIFIED %s@%d", name, rv))
		}
	}
	play := func(lends bool) played {
		return runOn(t, &server{lends: lends, answers: []answer{{rv: "5"}, {frames: frames, err: io.EOF}, {refuse: denied()}}},
			transition.State{NoStream: true})
	}
	alone, together := play(false), play(true)
	if n := len(alone.host.incidents); n < 100 || len(alone.host.published) < 5 {
		t.Fatalf("%d incidents, %d batches: the script has too little in it", n, len(alone.host.published))
	}
	if diff := cmp.Diff(strings.Fields(changesOf(alone)), strings.Fields(changesOf(together))); diff != "" {
		t.Errorf("published (-alone +together):\n%s", diff)
	}
	if diff := cmp.Diff(alone.host.incidents, together.host.incidents); diff != "" {
		t.Errorf("incidents (-alone +together):\n%s", diff)
	}
	if diff := cmp.Diff(alone.server.requests, together.server.requests); diff != "" {
		t.Errorf("requests (-alone +together):\n%s", diff)
	}
}

// changesOf is all that was published, whichever batches it came in.
func changesOf(p played) string {
	var all []string
	for _, batch := range p.host.published {
		_, changes, _ := strings.Cut(batch, ":")
		all = append(all, changes)
	}
	return strings.Join(all, " ")
}
