package linear_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/conformance/crash/linear"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound is a history that a correct server can give: with a write that was killed
// and took effect, and one that did not.
func sound() []linear.Op {
	return []linear.Op{
		{Client: 0, Kind: linear.Get, Result: linear.NotFound, Call: 1, Return: 2},
		{Client: 0, Kind: linear.Create, Value: 1, RV: 10, Result: linear.OK, Call: 3, Return: 6},
		{Client: 1, Kind: linear.Create, Value: 2, Result: linear.Exists, Call: 4, Return: 8},
		{Client: 1, Kind: linear.Update, If: 10, IfValue: 1, Value: 3, RV: 12, Result: linear.OK, Call: 9, Return: 10},
		{Client: 0, Kind: linear.Update, If: 10, IfValue: 1, Value: 4, Result: linear.Conflict, Call: 11, Return: 12},
		{Client: 0, Kind: linear.Replace, Value: 5, Result: linear.Unknown, Call: 13},
		{Client: 1, Kind: linear.Replace, Value: 6, Result: linear.Unknown, Call: 13, Return: 19},
		{Client: 2, Kind: linear.Get, Value: 5, RV: 14, Result: linear.OK, Call: 20, Return: 21},
		{Client: 2, Kind: linear.DeleteIf, If: 14, IfValue: 5, Result: linear.OK, Call: 22, Return: 23},
		{Client: 2, Kind: linear.Delete, Result: linear.NotFound, Call: 24, Return: 25},
		{Client: 2, Kind: linear.Create, Value: 7, RV: 16, Result: linear.OK, Call: 26, Return: 27},
		{Client: 2, Kind: linear.Get, Value: 7, RV: 16, Result: linear.OK, Call: 28, Return: 29},
		{Client: 2, Kind: linear.Delete, Result: linear.Unknown, Call: 30},
		{Client: 2, Kind: linear.Get, Result: linear.NotFound, Call: 31, Return: 32},
	}
}

func TestModelDetectsFalsifiedHistories(t *testing.T) {
	for _, c := range []struct {
		name    string
		falsify func(ops []linear.Op)
		want    porcupine.CheckResult
	}{
		{"as it was", func([]linear.Op) {}, porcupine.Ok},
		{"an acknowledged write is lost", func(ops []linear.Op) {
			ops[11].Value, ops[11].RV = 5, 14
		}, porcupine.Illegal},
		{"an acknowledged creation is not there", func(ops []linear.Op) {
			ops[11] = linear.Op{Client: 2, Kind: linear.Get, Result: linear.NotFound, Call: 28, Return: 29}
		}, porcupine.Illegal},
		{"a read is stale", func(ops []linear.Op) { ops[7].Value, ops[7].RV = 1, 10 }, porcupine.Illegal},
		{"a resourceVersion is given twice", func(ops []linear.Op) { ops[3].RV = 10 }, porcupine.Illegal},
		{"a resourceVersion goes back", func(ops []linear.Op) { ops[10].RV, ops[11].RV = 13, 13 }, porcupine.Illegal},
		{"one content has two resourceVersions", func(ops []linear.Op) { ops[11].RV = 17 }, porcupine.Illegal},
		{"a refused write takes effect", func(ops []linear.Op) { ops[7].Value = 4 }, porcupine.Illegal},
		{"a stale precondition is met", func(ops []linear.Op) { ops[4].Result, ops[4].RV = linear.OK, 13 }, porcupine.Illegal},
		{"two create the same object", func(ops []linear.Op) { ops[2].Result, ops[2].RV = linear.OK, 11 }, porcupine.Illegal},
		{"nobody deleted it", func(ops []linear.Op) { ops[12].Call = 33 }, porcupine.Illegal},
		{"a write takes effect after its server was killed", func(ops []linear.Op) {
			ops[4] = linear.Op{Client: 0, Kind: linear.Get, Value: 3, RV: 12, Result: linear.OK, Call: 16, Return: 17}
			ops[5].Return = 15
		}, porcupine.Illegal},
		{"a write takes effect late, but before its server was killed", func(ops []linear.Op) {
			ops[4] = linear.Op{Client: 0, Kind: linear.Get, Value: 3, RV: 12, Result: linear.OK, Call: 16, Return: 17}
			ops[5].Return = 18
		}, porcupine.Ok},
		{"a write without a precondition gives up", func(ops []linear.Op) {
			ops[6].Result, ops[6].Return = linear.Conflict, 14
		}, porcupine.Ok},
		{"a killed write is never seen", func(ops []linear.Op) {
			ops[7].Value, ops[7].RV = 3, 12
			ops[8].If, ops[8].IfValue = 12, 3
		}, porcupine.Ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := linear.History{Ops: sound()}
			c.falsify(h.Ops)
			if got := h.Check(time.Minute).Result; got != c.want {
				t.Errorf("the verdict is %s, want %s", got, c.want)
			}
		})
	}
}

// TestKeysAreIndependent orders operations of two keys that no single object
// could have.
func TestKeysAreIndependent(t *testing.T) {
	h := linear.History{Ops: sound()}
	for _, op := range sound() {
		op.Key, op.Value, op.IfValue = "other", op.Value+100, op.IfValue+100
		h.Ops = append(h.Ops, op)
	}
	if got := h.Check(time.Minute).Result; got != porcupine.Ok {
		t.Errorf("the verdict is %s", got)
	}
}

func TestSavedHistoryGetsTheSameVerdictAndAPicture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	h := linear.History{Seed: 7, Note: "a stale read", Ops: sound()}
	h.Ops[7].Value, h.Ops[7].RV = 1, 10
	if err := h.Save(path); err != nil {
		t.Fatalf("save: %v", err)
	}
	again, err := linear.Load(path)
	if err != nil || again.Seed != h.Seed || again.Note != h.Note || !slices.Equal(again.Ops, h.Ops) {
		t.Fatalf("loaded %+v, %v", again, err)
	}
	verdict := again.Check(time.Minute)
	if verdict.Result != porcupine.Illegal {
		t.Errorf("the verdict is %s", verdict.Result)
	}
	if err := verdict.Draw(path + ".html"); err != nil {
		t.Fatalf("draw verdict: %v", err)
	}
	if info, err := os.Stat(path + ".html"); err != nil || info.Size() == 0 {
		t.Errorf("the picture: %v", err)
	}
}

// TestLongHistoriesWithUnknownOutcomesAreDecidedQuickly plays a correct register
// with three clients and a kill every now and then.
func TestLongHistoriesWithUnknownOutcomesAreDecidedQuickly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var ops []linear.Op
	var value, rv, now int64 = 1, 100, 10
	ops = append(ops, linear.Op{Kind: linear.Create, Value: value, RV: rv, Result: linear.OK, Call: 1, Return: 2})
	for id := int64(2); id < 400; id++ {
		now += 10
		op := linear.Op{Client: int(id % 3), Kind: linear.Replace, Value: id, Call: now, Return: now + 15, Result: linear.OK}
		switch {
		case random.IntN(20) == 0:
			op.Result = linear.Unknown
			if random.IntN(2) == 0 {
				rv++
				value = id
			}
		case random.IntN(2) == 0:
			op.Kind, op.Value, op.RV, op.Return = linear.Get, value, rv, now+3
		default:
			rv++
			value, op.RV = id, rv
			op.Return = now + 3
		}
		ops = append(ops, op)
	}
	begin := time.Now()
	if got := (linear.History{Ops: ops}).Check(time.Minute).Result; got != porcupine.Ok {
		t.Errorf("the verdict is %s", got)
	}
	t.Logf("%d operations took %v", len(ops), time.Since(begin))
}
