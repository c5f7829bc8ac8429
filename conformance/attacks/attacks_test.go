package attacks_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/attacks"
)

// built is the program under test.
var built string

func TestMain(m *testing.M) {
	if order := os.Getenv(attacks.OrderVariable); order != "" { // this process is an attacker
		if err := attacks.RunOrder(context.Background(), order, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "gapless-attacks-")
	if err == nil {
		built, err = harness.Build(context.Background(), dir, harness.Root(), "cmd/gapless")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // what is left is in the directory for temporary files
		os.Exit(code)
	}))
}

// mostMemory is what the server may need under the short form of any attack, in KB:
// 64 MiB of bodies of one user and what is made of the one that is worked on, up to
// 300 MB, and a collector that lets a heap of this size grow to twice of that.
const mostMemory = 768 << 10

// TestNoAttackHarmsAWellBehavedClient plays each attack in its short form: the
// well-behaved client gets every answer and every event, what is refused is refused
// as it should be and counted, and memory stays bounded. No time is asserted; `make
// attacks` measures.
func TestNoAttackHarmsAWellBehavedClient(t *testing.T) {
	for _, attack := range attacks.All() {
		t.Run(attack.Name, func(t *testing.T) {
			t.Parallel()
			target, err := attacks.NewTarget(t.Context(), built, t.TempDir(), attack.Flags...)
			if err != nil {
				t.Fatalf("make a target: %v", err)
			}
			play(t, target, attack)
		})
	}
}

// TestNoAttackOnARelayHarmsAWellBehavedClient plays those that a relay answers for: on connections, and
// with many watches. Bodies are its upstream's.
func TestNoAttackOnARelayHarmsAWellBehavedClient(t *testing.T) {
	for _, attack := range attacks.All() {
		if !attack.OnConnections {
			continue
		}
		t.Run(attack.Name, func(t *testing.T) {
			t.Parallel()
			target, err := attacks.NewRelayTarget(t.Context(), built, t.TempDir(), attack.Flags...)
			if err != nil {
				t.Fatalf("make a relay target: %v", err)
			}
			play(t, target, attack)
		})
	}
}

// play plays the short form of an attack on a target, and closes it.
func play(t *testing.T, target *attacks.Target, attack attacks.Attack) {
	t.Helper()
	defer func() {
		if err := target.Close(); err != nil {
			t.Errorf("close target: %v", err)
		}
	}()
	r, err := target.Play(t.Context(), attack, attacks.Short)
	if err != nil {
		t.Fatalf("play target: %v", err)
	}
	t.Log(r)
	if len(r.Failed) > 0 {
		t.Errorf("the well-behaved client failed %d times, first: %s", len(r.Failed), r.Failed[0])
	}
	if !r.Reached() {
		t.Errorf("want one of %q, but counted were %v; want the attackers to see one of %q, but they saw %v",
			attack.Refused, r.Counts, attack.Expected, r.Seen)
	}
	if n := r.Seen["429 without Retry-After"]; n > 0 {
		t.Errorf("%d answers with 429 did not say when to come back", n)
	}
	if n := r.Seen["429 at once"]; n > 0 {
		t.Errorf("%d requests were refused before they had waited", n)
	}
	if r.Peak > mostMemory {
		t.Errorf("the server needed %d KB, more than %d", r.Peak, mostMemory)
	}
}
