package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// TestADamagedLogIsToBeMovedAway: gapless fsck does not repair it, and etcd has all that is needed.
func TestADamagedLogIsToBeMovedAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "replica")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, format.ManifestName), []byte("damaged"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	_, err := Open(t.Context(), Options{Dir: dir, Prefix: "/registry"})
	damage, is := errors.AsType[*store.CorruptError](err)
	if !is || !strings.Contains(damage.Error(), "move "+dir+" away") {
		t.Errorf("open a log that is damaged: %v", err)
	}
}

// TestAReplacementThatIsRecordedAgainIsOneHole: known.go's record may fail after the end of a replacement, which is
// recorded again then. Its deletions are of the one hole, also after a restart.
func TestAReplacementThatIsRecordedAgainIsOneHole(t *testing.T) {
	r := rebuild{marks: []placedMark{
		{pos: 5, kind: markBegin, rev: 10},
		{pos: 7, kind: markEnd, rev: 20},
		{pos: 8, kind: markBegin, rev: 10},
		{pos: 12, kind: markEnd, rev: 30},
		{pos: 15, kind: markBegin, rev: 30},
		{pos: 16, kind: markEnd, rev: 40},
	}}
	r.marksBefore(20)
	want := []hole{{from: 10, to: 30, begin: 5, end: 12}, {from: 30, to: 40, begin: 15, end: 16}}
	if !slices.Equal(r.holes, want) {
		t.Errorf("the holes are %v, want %v", r.holes, want)
	}
}
