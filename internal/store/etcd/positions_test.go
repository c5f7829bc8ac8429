package etcd

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
)

// row is a position and its revision, as the simplest positions have them.
type row struct{ pos, rev int64 }

// oldRows makes a random history: single changes, deletions with their marks, several changes at one
// revision, revisions of nothing, and positions of the replica's own.
func oldRows(random *rand.Rand, n int) []row {
	pos, rev := 1_000_000_000+random.Int64N(10), 1+random.Int64N(100)
	var rows []row
	for len(rows) < n {
		rev++
		if random.IntN(4) == 0 {
			rev += random.Int64N(20)
		}
		if random.IntN(8) == 0 {
			pos += random.Int64N(4)
		}
		same := 1
		if random.IntN(3) == 0 {
			same += random.IntN(4)
		}
		for range same {
			if pos++; random.IntN(8) == 0 { // what a replacement was cut off by
				pos++
			}
			rows = append(rows, row{pos, rev})
		}
	}
	return rows
}

func of(rows []row) *positions {
	p := &positions{}
	for _, r := range rows {
		p.add(r.pos, r.rev)
	}
	return p
}

// agree compares what is asked of positions with the list of them.
func agree(t *testing.T, p *positions, rows []row) {
	t.Helper()
	last := rows[len(rows)-1]
	for i, r := range rows {
		if got := p.revision(r.pos); got != r.rev {
			t.Fatalf("position %d has revision %d, want %d", r.pos, got, r.rev)
		}
		if i+1 < len(rows) {
			next := rows[i+1]
			if got, want := p.before(r.pos), next.rev-1; got != want {
				t.Fatalf("the state after position %d is that up to %d, want %d", r.pos, got, want)
			}
			if got, want := p.splits(r.pos), next.rev == r.rev; got != want {
				t.Fatalf("position %d splits a revision: %v, want %v", r.pos, got, want)
			}
		}
	}
	for rev := rows[0].rev - 1; rev <= last.rev+1; rev++ {
		want := rows[0].pos - 1
		for _, r := range rows {
			if r.rev <= rev {
				want = r.pos
			}
		}
		if got := p.at(rev); got != want {
			t.Fatalf("revision %d is at position %d, want %d", rev, got, want)
		}
	}
}

func TestPositionsAreThoseOfAList(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		rows := oldRows(random, 1+random.IntN(60))
		agree(t, of(rows), rows)
	}
}

func TestTrimmedPositionsKeepWhatIsKept(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		rows := oldRows(random, 2+random.IntN(60))
		p := of(rows)
		compacted := rows[random.IntN(len(rows))].pos
		kept, left := []int64{}, []row{}
		for _, r := range rows {
			if r.pos > compacted || r.pos == compacted || random.IntN(3) == 0 {
				left = append(left, r)
				kept = append(kept, r.pos)
			}
		}
		p.trim(compacted, kept)
		for _, r := range left {
			if got := p.revision(r.pos); got != r.rev {
				t.Fatalf("after a trim at %d position %d has revision %d, want %d", compacted, r.pos, got, r.rev)
			}
		}
		for i, r := range left { // a revision between two that are kept is at the lower one
			if i+1 < len(left) && left[i+1].rev > r.rev {
				for _, rev := range []int64{r.rev, left[i+1].rev - 1} {
					if got := p.at(rev); got < r.pos || got >= left[i+1].pos {
						t.Fatalf("after a trim at %d revision %d is at %d, want one from %d before %d",
							compacted, rev, got, r.pos, left[i+1].pos)
					}
				}
			}
		}
		for i := range 20 { // and it goes on
			pos, rev := rows[len(rows)-1].pos+1+int64(i), rows[len(rows)-1].rev+1+int64(i)
			p.add(pos, rev)
			if got := p.revision(pos); got != rev {
				t.Fatalf("position %d after a trim has revision %d, want %d", pos, got, rev)
			}
		}
	}
}

func TestPositionsOfOneChangePerRevisionAreOneRun(t *testing.T) {
	p := &positions{}
	for i := range int64(100_000) {
		p.add(1_000_000_001+i, 500+i)
	}
	if len(p.runs) != 1 {
		t.Errorf("100000 changes take %d runs", len(p.runs))
	}
}

func TestOnlyDeletionsWithOthersAreShared(t *testing.T) {
	p := of([]row{{11, 5}, {12, 6}, {13, 6}, {15, 7}, {16, 7}, {17, 7}, {18, 8}})
	p.holes = []hole{{from: 8, to: 12, begin: 19, end: 22}}
	p.add(19, 8)
	p.add(20, 9)
	p.add(21, 10)
	p.add(22, 12)
	for pos, want := range map[int64]bool{11: false, 12: false, 15: true, 16: true, 18: false, 20: true} {
		if got := p.shared(pos); got != want {
			t.Errorf("position %d is shared: %v, want %v", pos, got, want)
		}
	}
	if diff := cmp.Diff([]store.Hole{{From: 8, To: 12}}, p.over(6, 9)); diff != "" {
		t.Errorf("holes from 6 to 9 (-want +got):\n%s", diff)
	}
	if over := slices.Concat(p.over(6, 8), p.over(12, 20)); len(over) > 0 {
		t.Errorf("holes beside it: %+v", over)
	}
}

// TestDeletionIsShownAtNoRevisionBeforeAChangeThatCameFirst: the attempt to record what a hole differs in was cut off
// after a change at 10, and the next one found another object gone.
func TestDeletionIsShownAtNoRevisionBeforeAChangeThatCameFirst(t *testing.T) {
	p := of([]row{{18, 8}})
	p.add(20, 9) // a deletion
	p.add(21, 10)
	p.add(23, 9) // a deletion, of the next attempt
	p.add(24, 9)
	p.add(25, 11)
	p.add(26, 12)
	p.holes = []hole{{from: 8, to: 12, begin: 19, end: 26}}
	for pos, want := range map[int64]bool{20: true, 23: false, 24: false} {
		if got := p.shared(pos); got != want {
			t.Errorf("position %d, of revision %d, is shared: %v, want %v", pos, p.revision(pos), got, want)
		}
	}
}

func TestCheckpointsAndRunsComeBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := of(oldRows(rand.New(rand.NewPCG(seed, 1)), 500))
	runs, err := decodeRuns(encodeRuns(p.runs))
	if err != nil {
		t.Fatalf("decode the runs: %v", err)
	}
	if diff := cmp.Diff(p.runs, runs, cmp.AllowUnexported(run{})); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	want := checkpoint{
		number: 3, records: 2, at: moment{pos: 1_000_000_777, rev: 42}, holes: []hole{{1, 5, 7, 9}, {8, 9, 10, 11}},
		last: lastKnown{key: "pods/a", rev: 41, deleted: true},
	}
	encoded := want.encode()
	got, err := decodeCheckpoint(encoded)
	if err != nil {
		t.Fatalf("decode the checkpoint: %v", err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(checkpoint{}, moment{}, hole{}, lastKnown{})); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	for n := range len(encoded) - len(want.last.key) {
		if _, err := decodeCheckpoint(encoded[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a checkpoint", n, len(encoded))
		}
	}
}

func FuzzDecodeRecords(f *testing.F) {
	f.Add(checkpoint{number: 1, at: moment{pos: 5, rev: 6}, holes: []hole{{1, 2, 3, 4}}}.encode())
	f.Add(encodeRuns([]run{{pos: 5, rev: 7, n: 2, flat: true}}))
	f.Add(encodeMark(markBegin, 9))
	f.Add(encodeObject(1, 2, []byte("x")))
	f.Add(cluster{id: 7, prefix: "/registry/"}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = decodeCheckpoint(b)
		_, _ = decodeRuns(b)
		_, _, _ = decodeMark(b)
		_, _ = decodeCluster(b)
		if o, err := decodeObject(b); err == nil && string(encodeObject(o.mod, o.create, o.value)) != string(b) {
			t.Errorf("%x is another object when it is encoded again", b)
		}
	})
}
