package disk_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// The zeros that are written ahead are nowhere that there is data, however a file is written,
// grown, cut off and opened again.
func TestZerosAheadReplaceNoData(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		system, err := disk.NewOS(t.TempDir())
		must(t, err)
		f, err := system.Create("a")
		must(t, err)
		var want []byte
		for range 40 {
			switch r.IntN(8) {
			case 0:
				size := r.IntN(2 << 20)
				must(t, f.Allocate(int64(size)))
				want = append(want[:min(len(want), size)], make([]byte, max(0, size-len(want)))...)
			case 1:
				must(t, f.Close())
				f, _, err = system.Open("a")
				must(t, err)
			default:
				b := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, 1+r.IntN(100_000))
				off := r.IntN(len(want) + 1000)
				_, err := f.WriteAt(b, int64(off))
				must(t, err)
				want = append(want, make([]byte, max(0, off+len(b)-len(want)))...)
				copy(want[off:], b)
			}
		}
		must(t, f.Sync())
		must(t, f.Close())
		f, size, err := system.Open("a")
		must(t, err)
		got := make([]byte, size)
		_, err = f.ReadAt(got, 0)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("seed %d: %d bytes, want %d, or others", seed, len(got), len(want))
		}
		must(t, f.Close())
		must(t, system.Dir().Close())
	}
}
