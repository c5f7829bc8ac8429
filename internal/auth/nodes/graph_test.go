package nodes

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
)

// TestAKubeletThatNeverAsksFillsNoMemory: a node has as many notes as pods, and volumes that are gone leave none.
func TestAKubeletThatNeverAsksFillsNoMemory(t *testing.T) {
	a := &Authorizer{graph: newGraph()}
	parse := func(text string) *wire.Object {
		o, err := wire.ParseObject([]byte(text), []wire.FieldPath{{Label: nodeName, Default: "n"}})
		if err != nil {
			t.Fatalf("parse an object: %v", err)
		}
		return o
	}
	a.Change(pods, parse(`{"metadata":{"name":"stays","namespace":"a"}}`), false)
	for i := range 1000 {
		pod := parse(fmt.Sprintf(`{"metadata":{"name":"p-%d","namespace":"a"}}`, i))
		volume := parse(fmt.Sprintf(`{"metadata":{"name":"v-%d"}}`, i))
		for _, deleted := range []bool{false, true} {
			a.Change(pods, pod, deleted)
			a.Change(volumes, volume, deleted)
		}
	}
	if n := len(a.graph.nodes["n"].changed); n != 1 || len(a.graph.volumes) != 0 {
		t.Errorf("%d notes of a node with one pod, %d of no volume", n, len(a.graph.volumes))
	}
}
